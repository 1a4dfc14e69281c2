"""The old name of `handrail.integrations`; it will go with the next release."""

import warnings

from handrail import integrations

warnings.warn("handrail.exports is now handrail.integrations", DeprecationWarning, stacklevel=2)
__path__ = integrations.__path__
