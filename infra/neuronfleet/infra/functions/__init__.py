"""Sources of Lambda functions; each is one file of standard library and boto3, sent inline."""
