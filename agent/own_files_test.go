package agent

import (
	"path/filepath"
	"reflect"
	"slices"
	"testing"
)

// The driver exec hides all files of the agent that have secrets, or may.
func TestConfig_OwnFilesAreHiddenFromTasks(t *testing.T) {
	dir := writeFiles(t, map[string]string{
		"a.hcl": `tls {
  mode        = "require"
  ca_file     = "/k/ca.pem"
  cert_file   = "/k/cert.pem"
  key_file    = "relative/key.pem"
  ca_key_file = "/k/ca-key.pem"
}
operator_socket = "/run/b/socket"
consul {
  cert_file  = "/k/consul-cert.pem"
  key_file   = "/k/consul.pem"
  token_file = "/k/token"
}
client {
  drivers {
    docker {
      auth { config = "/k/docker.json" }
    }
  }
}
server {
  keyring {
    transit {
      address    = "https://vault:8200"
      key_name   = "x"
      token_file = "/k/transit"
    }
    previous { file = "/k/keyring" }
  }
  fencing "a" {
    agent        = "x"
    secret_files = { password = "/k/bmc" }
  }
}`})
	file := filepath.Join(writeFiles(t, map[string]string{"b.hcl": ""}), "b.hcl")
	c, err := parseConfig(t, "-config", dir, "-config", file, "-data-dir", "/x",
		"-server", "-client")
	if err == nil {
		err = c.Finish()
	}
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Abs("relative/key.pem")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"/etc/berth", "/x", "/run/b/socket", dir, file, relative,
		"/k/token", "/k/ca-key.pem", "/k/consul.pem", "/k/docker.json", "/k/transit", "/k/keyring", "/k/bmc",
	}
	slices.Sort(want)
	if got := c.Client.DriverConfig().Exec.OwnFiles; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
