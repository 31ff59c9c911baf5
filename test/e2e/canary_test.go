package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/structs"
	"berth/test/shelf"
	"berth/vault/vaulttest"
)

// The secrets of the test: no place but those that the test names may have one.
const (
	ofVolume    = "c4n4ry-of-a-volume"
	ofVariable  = "c4n4ry-of-a-variable"
	rotated     = "c4n4ry-of-a-rotation"
	ofJob       = "c4n4ry-of-a-job"
	ofDevice    = "c4n4ry-of-a-fence-device"
	ofConsul    = "c4n4ry-of-a-consul"
	ofVault     = "c4n4ry-of-a-vault"
	ofTokenFile = "c4n4ry-of-a-token-file"
	ofProvider  = "c4n4ry-of-a-provider"
	ofLogin     = "c4n4ry-of-a-login.e30.e30"
	ofNobody    = "c4n4ry-of-nobody"
)

var canaries = []string{
	ofVolume, ofVariable, rotated, ofJob, ofDevice, ofConsul, ofVault, ofTokenFile, ofProvider, ofLogin,
	ofNobody,
}

// pathOfVariable is no secret. Where it is found, a secret beside it would have been found, too.
const pathOfVariable = "nomad/volumes/default/b"

// secretCluster is a server and a node with TLS, a fence device, a Consul, a Vault and the shelf plugin.
type secretCluster struct {
	t      *testing.T
	s, n   *agent
	st     *shelfDir
	consul *consulOfCanaries
	vault  *vaulttest.Server
	paths  int               // texts with pathOfVariable
	own    map[string][]byte // secrets of the cluster, by what they are
}

func newSecretCluster(t *testing.T) *secretCluster {
	t.Helper()
	c := &secretCluster{
		t:      t,
		st:     newStorage(t),
		consul: newConsulOfCanaries(t),
		vault:  newVault(t),
		own:    map[string][]byte{},
	}
	c.s = newAgent(t, "s1", "-bootstrap-expect", "1")
	etc := filepath.Join(c.s.dir, "etc")
	c.s.args = append(c.s.args, "-config", etc)
	c.s.must("tls", "init", "-key-saved", "-dir", etc, "-id", "s1")
	c.useConsul(c.s, fmt.Sprintf("token = %q", ofConsul))
	c.useVault(c.s)
	c.useDevice()
	c.s.writeSecret("acl.hcl", auditBlock+"acl {\n  enabled = true\n}\n")
	c.s.launch()
	token := ""
	eventually(t, "a join token", func() error {
		out, err := c.s.runOverSocket("node", "join-token", "create")
		token = strings.TrimSpace(out)
		return err
	})
	c.n = newAgent(t, "n1").allowRaw()
	etc = filepath.Join(c.n.dir, "etc")
	c.n.args = append(c.n.args, "-config", etc)
	c.own["the join token"] = []byte(token)
	err := c.n.runJoin(token, "-dir", etc, net.JoinHostPort("127.0.0.1", strconv.Itoa(c.s.rpc)))
	if err != nil {
		t.Fatal(err)
	}
	c.useConsul(c.n, fmt.Sprintf("token_file = %q", c.n.writeSecret("consul-token", ofTokenFile)))
	c.useVault(c.n)
	c.n.writeSecret("audit.hcl", auditBlock)
	c.n.launch()
	c.eventually("ready", "node", "status")
	for _, a := range []*agent{c.s, c.n} {
		c.noteKeys(a)
	}
	return c
}

// noteKeys notes the keys in the configuration of an agent.
func (c *secretCluster) noteKeys(a *agent) {
	c.t.Helper()
	for file, pattern := range map[string]string{
		"keyring":    `(\S{32,})\s*$`,
		"ca-key.pem": `-\n(\S{32,})\n`,
		"key.pem":    `-\n(\S{32,})\n`,
		"tls.hcl":    `encrypt = "(\S{16,})"`,
	} {
		text, err := os.ReadFile(filepath.Join(a.dir, "etc", file))
		found := regexp.MustCompile(pattern).FindSubmatch(text)
		switch {
		case found != nil:
			c.own[file+" of "+a.name] = found[1]
		case a == c.s:
			c.t.Errorf("no secret was found in %s: %v", file, err)
		}
	}
}

// searchKeys fails the test for each secret of the cluster in a text. The operator socket shows the key of
// the gossip, and a server keeps it in a file of its own.
func (c *secretCluster) searchKeys(where string, text []byte) {
	ofGossip := where == "/v1/agent/keyring/list" || filepath.Base(where) == "serf.keyring"
	for name, secret := range c.own {
		if bytes.Contains(text, secret) && !(ofGossip && name == "tls.hcl of s1") {
			c.t.Errorf("%s has %s", where, name)
		}
	}
}

func (c *secretCluster) must(args ...string) string {
	c.t.Helper()
	out, err := c.s.runOverSocket(args...)
	if err != nil {
		c.t.Fatalf("berth %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// eventually waits until the output of a command has a word.
func (c *secretCluster) eventually(word string, args ...string) {
	c.t.Helper()
	eventually(c.t, strings.Join(args, " ")+" shows "+word, func() error {
		out, err := c.s.runOverSocket(args...)
		if err == nil && !strings.Contains(out, word) {
			err = fmt.Errorf("it shows\n%s", out)
		}
		return err
	})
}

// putSecret writes a variable. No file and no argument has the value for longer.
func (c *secretCluster) putSecret(path, value string) {
	c.t.Helper()
	file := c.s.writeFile("value", value)
	c.must("var", "put", path, "password=@"+file)
	if err := os.Remove(file); err != nil {
		c.t.Fatal(err)
	}
}

// createVolume makes a volume of the plugin with a line for its secrets.
func (c *secretCluster) createVolume(id, secrets string) {
	c.t.Helper()
	text := strings.Replace(volumeFile{id: id}.hclWithSize(300), `"hostpath"`, `"shelf"`, 1)
	file := c.s.writeFile(id+".hcl", text+secrets)
	c.must("volume", "create", file)
	if err := os.Remove(file); err != nil {
		c.t.Fatal(err)
	}
}

// search fails the test for each canary in a text.
func (c *secretCluster) search(where string, text []byte) {
	if bytes.Contains(text, []byte(pathOfVariable)) {
		c.paths++
	}
	c.searchKeys(where, text)
	for _, canary := range canaries {
		if bytes.Contains(text, []byte(canary)) {
			c.t.Errorf("%s has %q", where, canary)
		}
	}
}

// searchFiles searches the files on the disk below a directory, not those of other file systems: the secrets
// of tasks are in memory.
func (c *secretCluster) searchFiles(dir string) (files int) {
	c.t.Helper()
	device := func(info fs.FileInfo) uint64 { return info.Sys().(*syscall.Stat_t).Dev }
	top, err := os.Stat(dir)
	if err != nil {
		c.t.Fatal(err)
	}
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // deleted meanwhile
		}
		info, err := e.Info()
		switch {
		case err != nil:
		case e.IsDir() && (device(info) != device(top) || path == filepath.Join(dir, "etc")):
			return fs.SkipDir // etc has the keys in the files of the operator
		case info.Mode().IsRegular():
			text, _ := os.ReadFile(path)
			c.search(path, text)
			files++
		}
		return nil
	})
	return files
}

// searchProcesses searches the arguments and environments of all processes.
func (c *secretCluster) searchProcesses() {
	for _, name := range []string{"cmdline", "environ"} {
		files, _ := filepath.Glob("/proc/[0-9]*/" + name)
		for _, file := range files {
			text, _ := os.ReadFile(file)
			c.search(file, text)
		}
	}
}

// read returns the answer of the server to a request over its operator socket, and whether it is no error.
// Routes that do not end are cut off.
func (c *secretCluster) read(path string) (body []byte, ok bool) {
	body, status := c.send(http.MethodGet, path, "", nil)
	return body, status == http.StatusOK
}

// send sends a request with a token over the operator socket. The status is 0 for no answer.
func (c *secretCluster) send(method, path, token string, body any) (answer []byte, status int) {
	c.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		c.t.Fatal(err)
	}
	client := http.Client{
		Timeout: 3 * time.Second,
		Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", c.s.operatorSocket())
			},
		},
	}
	req, err := http.NewRequestWithContext(c.t.Context(), method, "http://127.0.0.1"+path, bytes.NewReader(text))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("X-Berth-Token", token)
	resp, err := client.Do(req)
	if err != nil {
		return nil, 0
	}
	defer resp.Body.Close()
	answer, _ = io.ReadAll(resp.Body)
	return answer, resp.StatusCode
}

var routeLine = regexp.MustCompile("(?m)^\\| GET[^|]*\\| `(/v1/[^`]+)` \\|")

// searchAnswers searches the answers of all routes that read. ids has the IDs of what a path may name.
func (c *secretCluster) searchAnswers(ids []string) {
	c.t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "http.md"))
	if err != nil {
		c.t.Fatal(err)
	}
	answers := 0
	for _, m := range routeLine.FindAllStringSubmatch(string(page), -1) {
		for _, id := range ids {
			path := strings.Replace(m[1], "{id}", id, 1)
			if path == m[1] && id != ids[0] || strings.HasPrefix(path, "/v1/var/") {
				continue // the values of variables are there: see below
			}
			body, ok := c.read(path + "?namespace=default&path=t/secrets/given&plugin_id=shelf")
			if ok {
				answers++
			}
			c.search(path, body)
			c.search(path+", unpacked", unpacked(body))
		}
	}
	c.t.Logf("%d answers without an error were searched", answers)
	if answers < 60 {
		c.t.Errorf("only %d answers were searched", answers)
	}
}

// unpacked returns the content of a compressed archive, nil for anything else.
func unpacked(b []byte) []byte {
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil
	}
	text, _ := io.ReadAll(z)
	return text
}

// searchAll searches every place that may have no secret.
func (c *secretCluster) searchAll(ids []string) {
	c.t.Helper()
	for _, a := range []*agent{c.n, c.s} {
		c.paths = 0
		if files := c.searchFiles(a.dir); files < 5 {
			c.t.Errorf("only %d files of %s were searched", files, a.name)
		}
	}
	if c.paths == 0 {
		c.t.Error("the files of the server do not show the path of the variable")
	}
	c.searchFiles(c.st.root)
	archive := filepath.Join(c.st.root, "archive.snap")
	c.must("operator", "snapshot", "save", archive)
	b, err := os.ReadFile(archive)
	if err != nil || len(b) == 0 {
		c.t.Errorf("the archive: %v", err)
	}
	c.search("the archive", b)
	content := unpacked(b)
	if !bytes.Contains(content, []byte(pathOfVariable)) {
		c.t.Error("the content of the archive does not show the path of the variable")
	}
	c.search("the content of the archive", content)
	c.searchProcesses()
	c.searchRequests()
	c.searchAnswers(ids)
}

// wantCalls waits until the plugin has had a secret in calls of each RPC.
func (c *secretCluster) wantCalls(secret string, rpcs ...string) {
	c.t.Helper()
	eventually(c.t, fmt.Sprintf("calls of %q with a secret", rpcs), func() error {
		calls := strings.Split(c.st.read("secrets"), "\n")
		for _, rpc := range rpcs {
			if !slices.Contains(calls, rpc+" "+shelf.Digest(secret)) {
				return fmt.Errorf("%s had no such call; the calls are\n%s", rpc, strings.Join(calls, "\n"))
			}
		}
		return nil
	})
}

// The job has a volume of each kind, and templates with a variable and with a secret of Vault. The token of
// Vault is in a file alone: all processes of root can read an environment.
const secretJob = `
job "web" {
  group "g" {
    volume "a" {
      type            = "csi"
      source          = "a"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }
    volume "b" {
      type            = "csi"
      source          = "b"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }
    task "t" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "wc -c < $NOMAD_SECRETS_DIR/given; exec sleep 100000"]
      }
      volume_mount {
        volume      = "a"
        destination = "/a"
      }
      volume_mount {
        volume      = "b"
        destination = "/b"
      }
      identity {
        file = true
      }
      vault {
        env = false
      }
      template {
        data        = "{{ with secret \"secret/web\" }}{{ .Data.data.password }}{{ end }}"
        destination = "secrets/of-vault"
      }
      template {
        data        = "{{ with nomadVar \"nomad/jobs/web\" }}{{ .password }}{{ end }}"
        destination = "secrets/given"
      }
      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
`

// The secrets of volumes, of either form, and of a variable are in the calls of the plugin and in the memory
// of the task, as are that of Vault and the token that reads it. That of a fence device is in the input of
// its agent, and the tokens of Consul are in the requests to it. None is anywhere else, also not in the audit
// logs.
func TestDuty_A7_D3_SecretsAreInTheCallsOfThePluginAlone(t *testing.T) {
	t.Parallel()
	c := newSecretCluster(t)
	c.must("job", "run", "-detach", c.st.writePluginJob(c.s, "shelf", "system", "monolith"))
	c.eventually("1/1", "plugin", "status")
	c.putSecret(pathOfVariable, ofVariable)
	c.putSecret("nomad/jobs/web", ofJob)
	c.createVolume("a", fmt.Sprintf("secrets = { password = %q }\n", ofVolume))
	c.createVolume("b", fmt.Sprintf("secrets_from = %q\n", pathOfVariable))
	c.must("job", "run", "-detach", c.s.writeFile("web.hcl", secretJob))
	used := []string{"CreateVolume", "ControllerPublishVolume", "NodeStageVolume", "NodePublishVolume"}
	c.wantCalls(ofVolume, used...)
	c.wantCalls(ofVariable, used...)

	var alloc *structs.AllocListStub
	eventually(t, "the job runs", func() error {
		body, _ := c.read("/v1/job/web/allocations")
		for _, a := range decode[[]*structs.AllocListStub](t, string(body)) {
			if a.ClientStatus == structs.AllocRunning {
				alloc = a
				return nil
			}
		}
		return fmt.Errorf("it does not run")
	})
	given, err := os.ReadFile(c.n.data("alloc", alloc.ID, "t", "secrets", "given"))
	if err != nil || string(given) != ofJob {
		t.Errorf("the task has %q, %v", given, err)
	}
	c.readVault(alloc.ID)
	if value, _ := c.read("/v1/var/" + pathOfVariable); !bytes.Contains(value, []byte(ofVariable)) {
		t.Errorf("the operator socket answers %s", value)
	}
	c.fence([]string{"-pin", "n1", "plug=n1"})
	c.fence([]string{"test", "n1"}, "monitor")
	c.useTokens(alloc.ID)
	c.searchDebug()
	ids := []string{"a", "b", "web", "shelf", "default", alloc.ID, alloc.NodeID, alloc.EvalID}
	c.searchAll(ids)

	// The detach has the secrets of its attach, and the deletion the present ones.
	c.putSecret(pathOfVariable, rotated)
	c.must("job", "stop", "-detach", "web")
	c.wantCalls(ofVariable, "ControllerUnpublishVolume")
	c.wantCalls(ofVolume, "ControllerUnpublishVolume")
	eventually(t, "the volume is deleted", func() error {
		_, err := c.s.runOverSocket("volume", "delete", "b")
		return err
	})
	c.wantCalls(rotated, "DeleteVolume")
	c.searchAll(ids)

	c.fenceLost(alloc.NodeID)
	c.searchAll(ids)
	c.searchAudit(alloc.ID)
}
