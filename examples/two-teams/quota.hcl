name = "small"

limit {
  region_limit {
    cpu         = 300
    memory      = 200
    allocations = 2

    storage {
      volumes = 1
      bytes   = "64MiB"
    }
  }
}
