"""The one way in which the kernel says no, apart because its checks stand in several modules."""


class NotNativeError(Exception):
    """The kernel may not scan; the message is the reason. The stage then runs `full`."""
