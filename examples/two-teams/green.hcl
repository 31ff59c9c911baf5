namespace "green" {
  policy = "write"
}
plugin { policy = "read" }
