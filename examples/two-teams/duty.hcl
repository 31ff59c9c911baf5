namespace "*" {
  policy = "read"

  volume "*" {
    capabilities = ["read", "detach"]
  }
}
node   { policy = "read" }
plugin { policy = "read" }
quota  { policy = "read" }
