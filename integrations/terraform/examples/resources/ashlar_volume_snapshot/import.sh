# By name or id
terraform import ashlar_volume_snapshot.example orders.before-upgrade
