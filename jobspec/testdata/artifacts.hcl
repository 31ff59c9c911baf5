job "fetch" {
  group "g" {
    task "web" {
      driver = "exec"
      config { command = "/local/server" }

      artifact {
        source      = "https://example.com/${attr.cpu.arch}/server.tar.gz"
        destination = "local/"
        options {
          checksum = "sha256:9834876dcfb05cb167a5c24953eba58c4ac89b1adf57f28f2f9d09af107ee8f0"
        }
        headers {
          X-Token = "${NOMAD_META_token}"
        }
      }

      artifact {
        source      = "git::https://example.com/settings.git"
        destination = "local/settings"
        mode        = "dir"
        insecure    = true
        chown       = true
        options     = { ref = "v1.0", depth = 1 }
      }
    }
  }
}
