package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"berth/acl"
	"berth/test/kit"
)

// peer is an agent of the peer that is server and node, with access control.
type peer struct {
	t       *testing.T
	dir     string
	address string
	token   string // of management
}

// startPeer starts an agent of the peer that runs until the test ends.
func startPeer(t *testing.T) *peer {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "bpeer-") // the path of a socket in it is short enough
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := os.RemoveAll(dir)
		if err != nil {
			t.Error(err)
		}
	})
	ports := kit.FreePorts(t, 3)
	p := &peer{
		t:       t,
		dir:     dir,
		address: fmt.Sprintf("http://127.0.0.1:%d", ports[0]),
	}
	text := fmt.Sprintf("ports {\n  http = %d\n  rpc = %d\n  serf = %d\n}\n", ports[0], ports[1], ports[2])
	text += "consul {\n  address = \"127.0.0.1:1\"\n}\n" // not that of the machine
	text += fmt.Sprintf("acl {\n  enabled = true\n}\ndata_dir = %q\n", filepath.Join(p.dir, "data"))
	file := filepath.Join(p.dir, "peer.hcl")
	err = os.WriteFile(file, []byte(text), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(p.dir, "peer.log"))
	if err != nil {
		t.Fatal(err)
	}

	cmd := exec.Command(peerBinary(t), "agent", "-dev", "-bind", "127.0.0.1", "-config", file)
	cmd.Dir = p.dir
	cmd.Stdout = log
	cmd.Stderr = log
	err = cmd.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // its exit code says nothing after the signal
		_ = log.Close()
	})
	eventually(t, "the peer has a leader and its first token", p.bootstrap)
	return p
}

// bootstrap makes the first token.
func (p *peer) bootstrap() error {
	resp, err := http.Post(p.address+"/v1/acl/bootstrap", "application/json", nil)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	var token struct{ SecretID string }
	err = json.NewDecoder(resp.Body).Decode(&token)
	p.token = token.SecretID
	return err
}

// run runs the peer's command line.
func (p *peer) run(input string, args ...string) (out string, err error) {
	cmd := exec.CommandContext(p.t.Context(), peerBinary(p.t), args...)
	cmd.Env = append(os.Environ(), "NOMAD_ADDR="+p.address, "NOMAD_TOKEN="+p.token)
	cmd.Stdin = strings.NewReader(input)
	text, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("the peer's %s: %w\n%s", strings.Join(args, " "), err, text)
	}
	return string(text), err
}

func (p *peer) must(input string, args ...string) {
	p.t.Helper()
	_, err := p.run(input, args...)
	if err != nil {
		p.t.Fatal(err)
	}
}

// peersPlugin is the job that runs the CSI driver in the peer.
const peersPlugin = "plugin-of-the-peer"

// volumes is the directory of the volumes of the driver.
func (p *peer) volumes() string { return filepath.Join(p.dir, "volumes") }

// createVolume runs the driver hostpath in the peer, and creates a volume with a file there.
func (p *peer) createVolume(id, content string) {
	p.t.Helper()
	socket := filepath.Join(p.dir, "data/client/csi/plugins", "${NOMAD_ALLOC_ID}", "csi.sock")
	p.must(fmt.Sprintf(`job %q {
  group "g" {
    task "driver" {
      driver = "raw_exec"
      config {
        command = %q
        args    = ["plugin", "hostpath", "-node-id", "one", "-data-dir", %q, "-endpoint", "unix://%s"]
      }
      csi_plugin {
        id        = "hostpath"
        type      = "monolith"
        mount_dir = "/csi"
      }
    }
  }
}`, peersPlugin, binary, p.volumes(), socket), "job", "run", "-detach", "-")
	eventually(p.t, "the peer creates a volume", func() error {
		_, err := p.run(volumeFile{id: id, older: true}.hcl(), "volume", "create", "-")
		return err
	})
	data, err := filepath.Glob(filepath.Join(p.volumes(), "volumes", "*", "data"))
	if err != nil || len(data) != 1 {
		p.t.Fatalf("the volume has the directories %q, %v", data, err)
	}
	err = os.WriteFile(filepath.Join(data[0], "content"), []byte(content+"\n"), 0o644)
	if err != nil {
		p.t.Fatal(err)
	}
}

// moveVolume moves the volume from the peer to berth, as docs/coming-from-nomad.md says. A job reads its
// data.
func moveVolume(p *peer, a *agent, file string) {
	p.t.Helper()
	p.must("", "volume", "deregister", "db")
	p.must("", "job", "stop", "-detach", "-purge", peersPlugin)
	a.must("job", "run", a.writeFile("plugin.hcl", fmt.Sprintf(`job "hostpath" {
  type = "system"
  group "g" {
    task "driver" {
      driver = "raw_exec"
      config {
        command = %q
        args    = ["plugin", "hostpath", "-node-id", "one", "-data-dir", %q]
      }
      csi_plugin {
        id        = "hostpath"
        type      = "monolith"
        mount_dir = "/csi"
      }
    }
  }
}`, binary, p.volumes())))
	a.must("volume", "register", file)
	a.must("job", "run", "-detach", a.writeJob(jobFile{
		name:   "reader",
		kind:   "batch",
		once:   true,
		uses:   []volumeUse{{source: "db", at: "/db"}},
		script: "cat /db/content",
	}))
	a.awaitOutput(a.awaitComplete("reader"), "written at the peer")
}

// checkPolicy fails the test unless berth accepts a policy.
func checkPolicy(t *testing.T, name, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		_, err = acl.Parse(name, string(text))
	}
	if err != nil {
		t.Error(err)
	}
}
