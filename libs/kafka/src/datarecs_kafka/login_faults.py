"""Which field of a connection mends a login or a certificate that failed.

Read from the words of OpenSSL, of the client and of brokers: the library raises a timeout for all
of them, and only its log has the cause.
"""

_REMEDIES: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("certificate has expired", "certificate is not yet valid"),
        "renew the certificate on the brokers, or the authorities in the connection's field ca",
    ),
    (
        ("hostname mismatch", "ip address mismatch", "not valid for"),
        (
            "brokers must have, and advertise, a name that is in their certificate: correct the "
            "connection's field brokers, or advertised.listeners of the cluster"
        ),
    ),
    (
        ("certificate verify failed",),
        (
            "set the connection's field ca to the certificates of the authority that signed those "
            "of the brokers"
        ),
    ),
    (
        ("certificate required", "bad certificate"),
        (
            "this listener needs a certificate of the client, which connections do not have: name "
            "a listener with a login in the connection's field brokers"
        ),
    ),
    (
        ("wrong version number", "record layer failure", "unexpected message"),
        (
            "this listener has no TLS: correct the connection's field security, or the port in its "
            "field brokers"
        ),
    ),
    (
        ("unsupportedsaslmechanism", "unsupported sasl mechanism", "illegalsaslstate"),
        "correct the connection's fields mechanism and security",
    ),
)
_HUNG_UP = "hangs up"
_LOGIN = "authentication"
_LOGIN_REMEDY = "correct the connection's fields user, password and mechanism"
_CLOSED = "unable to bootstrap"
_SECURITY_REMEDY = (
    "if a broker listens there, compare the connection's field security with its listener"
)


def remedy_of(cause: str, *, has_login: bool) -> str:
    """What to do; empty where the cause does not say it."""
    lower = cause.lower()
    for signs, remedy in _REMEDIES:
        if any(sign in lower for sign in signs):
            return remedy
    if has_login and _LOGIN in lower:
        return f"{_LOGIN_REMEDY}, or its field security" if _HUNG_UP in lower else _LOGIN_REMEDY
    return _SECURITY_REMEDY if _CLOSED in lower else ""
