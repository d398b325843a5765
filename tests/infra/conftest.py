"""Nothing of the infrastructure's tests asks AWS: there are no credentials to ask with."""

import os

for variable in [name for name in os.environ if name.startswith("AWS_")]:
    del os.environ[variable]
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
