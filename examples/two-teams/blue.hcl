namespace "blue" {
  policy = "write"
}
plugin { policy = "read" }
