# Debian with its own Python: what the product's Dockerfiles are built on where no registry can be reached.
FROM scratch
ADD base.tar /
