resource "ashlar_schedule" "nightly" {
  name              = "nightly"
  group             = ashlar_group.databases.id
  rules             = [{ when = "0 2 * * *", keep = 14 }]
  immutable_seconds = 86400
}
