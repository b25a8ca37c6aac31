"""Flags from values: flags(tp=2, overlap_tp=False) is ("--tp=2", "--overlap-tp=false"); values of None are left out."""


def text(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def flags(**values):
    return tuple(f"--{key.replace('_', '-')}={text(value)}" for key, value in values.items() if value is not None)
