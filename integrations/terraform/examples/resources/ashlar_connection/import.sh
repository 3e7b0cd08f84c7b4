# VOLUME/HOST or VOLUME/host-groups/HOST-GROUP, by names or ids
terraform import ashlar_connection.example orders/db1
