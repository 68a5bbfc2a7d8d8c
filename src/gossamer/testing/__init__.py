"""For users and for our own tests: a fake context, and whatever holds a template to what it promises."""
