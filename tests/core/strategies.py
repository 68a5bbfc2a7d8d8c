"""What hypothesis draws: any event, parcel or message that may travel."""

from __future__ import annotations

from hypothesis import strategies as st

from gossamer.core.event import MAX_ATTRIBUTE_NAME, QoS
from gossamer.core.names import MAX_NODE_NAME
from gossamer.core.parcel import MAX_DEPENDS, Answer, Header, Parcel, make_body
from gossamer.core.receipt import MAX_NUMBER, PROOF_BYTES, Stamp

numbers = st.integers(0, MAX_NUMBER)
texts = st.text(st.characters(codec="utf-8"), max_size=12)
values = st.one_of(
    texts,
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.booleans(),
    st.binary(max_size=12),
)
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=MAX_ATTRIBUTE_NAME)
attributes = st.dictionaries(names, values, max_size=4)
qos = st.builds(
    QoS,
    priority=st.integers(0, 9),
    expiry=st.none() | st.floats(min_value=1e-6, max_value=86400.0),
)
events = st.tuples(st.binary(max_size=40), st.none() | attributes)
depend = st.tuples(st.text("abz019_.-", min_size=1, max_size=MAX_NODE_NAME), numbers, numbers)
addresses = st.lists(st.text("abz019_.-", min_size=1, max_size=8), min_size=1, max_size=3).map("/".join)


def stamps(sequence: st.SearchStrategy[int], count: int) -> st.SearchStrategy[Stamp]:
    """Stamps of so many events."""
    return st.builds(
        Stamp,
        addresses,
        numbers,
        sequence,
        st.integers(1, min(MAX_NUMBER, MAX_NUMBER - count + 1)),
        st.just(count),
        st.binary(min_size=PROOF_BYTES, max_size=PROOF_BYTES),
    )


@st.composite
def parcels(draw: st.DrawFn) -> Parcel:
    """Any parcel that a source may seal, or make depend on others."""
    depends = tuple(draw(st.lists(depend, max_size=MAX_DEPENDS)))
    content = draw(st.lists(events, min_size=0 if depends else 1, max_size=5))
    sealed = _parcel(draw, content, draw(stamps(st.integers(1, MAX_NUMBER), len(content))), None)
    return sealed.depending_on(depends) if depends else sealed


@st.composite
def feedback(draw: st.DrawFn) -> Parcel:
    """Any answer."""
    answers = Answer(draw(stamps(numbers, draw(st.integers(1, 9)))), draw(numbers))
    return _parcel(draw, [draw(events)], draw(stamps(st.just(0), 1)), answers)


def _parcel(
    draw: st.DrawFn,
    content: list[tuple[bytes, dict[str, object] | None]],
    stamp: Stamp,
    answers: Answer | None,
) -> Parcel:
    envelopes = [each or None for _, each in content]
    body, split = make_body([payload for payload, _ in content], envelopes if any(envelopes) else [])
    return Parcel(Header(draw(numbers), stamp, draw(numbers), split, draw(st.none() | qos), answers), body)
