"""Logs on disk: what persistent channels stand on."""
