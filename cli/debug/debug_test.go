package debug_test

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"berth/cli/clitest"
	"berth/cli/command"
	"berth/cli/debug"
	"berth/structs"
	"berth/structs/cluster"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/kept.txt again")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var tree = []command.Command{debug.Command}

// fill sets all fields of a value. Each text tells its field.
func fill(v reflect.Value, path string, depth int) {
	if depth > 8 {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), path, depth)
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			switch {
			case !f.IsExported():
			case f.Anonymous:
				fill(v.Field(i), path, depth+1)
			default:
				fill(v.Field(i), path+"."+f.Name, depth+1)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), path, depth+1)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key := reflect.New(v.Type().Key()).Elem()
		fill(key, path+".KEY", depth+1)
		value := reflect.New(v.Type().Elem()).Elem()
		fill(value, path+".*", depth+1)
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("canary(" + path + ")")
	case reflect.Interface:
		if v.NumMethod() == 0 {
			v.Set(reflect.ValueOf("canary(" + path + ")"))
		}
	case reflect.Bool:
		v.SetBool(true)
	}
}

// row returns a value with all fields as JSON, and with secrets that the type itself would hide.
func row(t *testing.T, of any) map[string]any {
	t.Helper()
	v := reflect.New(reflect.TypeOf(of)).Elem()
	fill(v, v.Type().Name(), 0)
	b, err := json.Marshal(v.Interface())
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(b, &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Secrets", "SecretID", "Variables", "Payload", "Token", "AddedLater"} {
		fields[name] = map[string]any{"k": "canary(" + v.Type().Name() + "." + name + ")"}
	}
	return fields
}

// agent answers with rows that have secrets everywhere, and notes the paths.
type agent struct {
	answers map[string]any
	mu      sync.Mutex
	paths   []string
}

func (a *agent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.paths = append(a.paths, r.URL.Path)
	a.mu.Unlock()
	single := []string{"/v1/job/", "/v1/node/canary", "/v1/volume/csi/", "/v1/plugin/csi/", "/v1/agent/pprof/"}
	for _, prefix := range single {
		if strings.HasPrefix(r.URL.Path, prefix) {
			_ = json.NewEncoder(w).Encode(a.answers[prefix])
			return
		}
	}
	answer, ok := a.answers[r.URL.Path]
	if !ok {
		w.Header().Set("X-Berth-Error-Kind", "not-found")
		http.Error(w, "there is no such route", http.StatusNotFound)
		return
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// newAgent returns an agent with a row of each kind.
func newAgent(t *testing.T) *agent {
	host := map[string]any{
		"AgentID":  "n1",
		"HostData": map[string]any{"OS": "Linux", "Environment": map[string]string{"K": "canary(Environment)"}},
	}
	scheduler := map[string]any{"SchedulerConfig": row(t, cluster.SchedulerConfiguration{})}
	return &agent{answers: map[string]any{
		"/v1/agent/members": map[string]any{"Members": []map[string]any{{"Name": "s1.global", "Status": "alive"}}},
		"/v1/agent/self": map[string]any{
			"config": map[string]any{
				"Region": "global", "Consul": map[string]any{"Token": "canary(Consul.Token)"},
				"Vaults": []any{map[string]any{"Token": "canary(Vault.Token)"}},
			},
		},
		"/v1/agent/host":                       host,
		"/v1/agent/pprof/":                     "a profile",
		"/v1/status/leader":                    "10.0.0.1:4747",
		"/v1/nodes":                            []any{row(t, structs.NodeListStub{})},
		"/v1/node/canary":                      row(t, structs.Node{}),
		"/v1/jobs":                             []any{row(t, structs.JobListStub{})},
		"/v1/job/":                             row(t, structs.Job{}),
		"/v1/allocations":                      []any{row(t, structs.AllocListStub{})},
		"/v1/evaluations":                      []any{row(t, structs.Evaluation{})},
		"/v1/deployments":                      []any{row(t, structs.Deployment{})},
		"/v1/volumes":                          []any{row(t, structs.CSIVolumeListStub{})},
		"/v1/volume/csi/":                      row(t, structs.CSIVolume{}),
		"/v1/plugins":                          []any{row(t, structs.CSIPluginListStub{})},
		"/v1/plugin/csi/":                      row(t, structs.CSIPlugin{}),
		"/v1/namespaces":                       []any{row(t, cluster.Namespace{})},
		"/v1/node/pools":                       []any{row(t, cluster.NodePool{})},
		"/v1/operator/scheduler/configuration": scheduler,
		"/v1/operator/raft/configuration":      map[string]any{"Servers": []any{row(t, cluster.RaftServer{})}},
	}}
}

// unpack returns the texts of the files of the only archive in a directory.
func unpack(t *testing.T, dir string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "berth-debug-*"))
	if err != nil || len(paths) != 1 || !strings.HasSuffix(paths[0], ".tar.gz") {
		t.Fatalf("the directory has %q, %v; want one archive", paths, err)
	}
	info, err := os.Stat(paths[0])
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the archive has the mode %v, %v; want it for its user alone", info.Mode(), err)
	}
	f, err := os.Open(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(zipped); ; {
		h, err := archive.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(h.Name, "/")
		files[name] = string(text)
	}
}

var canary = regexp.MustCompile(`canary\(([^)]*)\)`)

// secret finds the fields that have values of users, plugins or drivers.
var secret = regexp.MustCompile(`(?i)\.(Env|Meta|Config|Args|Secrets|SecretID|SealedSecrets|Parameters|` +
	`Context|` +
	`MutableParameters|AppliedParameters|EmbeddedTmpl|Payload|Message|DisplayMessage|Details|Headers?|RTarget|` +
	`MountFlags|MountOptions|Token|Variables|Artifacts|Vault|Tags|Attributes|Text|Description|AddedLater|` +
	`LastDrain|Identities|Scaling|Capabilities|Consul|DispatchPayload|Services|Constraints)(\.|$)`)

// TestDebug_HasNoSecret is the canary: each text field of each row says its name, and the fields that reach
// the archive are those of a list that people read.
func TestDebug_HasNoSecret(t *testing.T) {
	a := newAgent(t)
	srv := httptest.NewServer(a)
	defer srv.Close()
	golden, err := filepath.Abs("testdata/kept.txt")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	code, out, errs := clitest.Run(t, tree, "debug", "-address", srv.URL, "-duration", "1s", "-interval", "1s")
	if code != 0 {
		t.Fatalf("got %d %q %q", code, out, errs)
	}
	files := unpack(t, ".")
	var kept []string
	for name, text := range files {
		for _, found := range canary.FindAllStringSubmatch(text, -1) {
			kept = append(kept, found[1])
			if secret.MatchString(found[1]) {
				t.Errorf("%s has a value of the field %s", name, found[1])
			}
		}
	}
	slices.Sort(kept)
	got := strings.Join(slices.Compact(kept), "\n") + "\n"
	checkGolden(t, golden, got)

	for _, path := range a.paths {
		if strings.HasPrefix(path, "/v1/var") || strings.HasPrefix(path, "/v1/acl") {
			t.Errorf("the command has asked for %s", path)
		}
	}
	for _, name := range []string{"index.json", "0000/jobs.json", "0000/nodes.json",
		"servers/s1_global/host.json", "servers/s1_global/heap.pprof"} {
		if files[name] == "" {
			t.Errorf("the archive lacks %s, it has %v", name, reflect.ValueOf(files).MapKeys())
		}
	}
	var index struct{ Missing map[string]string }
	if err := json.Unmarshal([]byte(files["index.json"]), &index); err != nil {
		t.Fatal(err)
	}
	if got := index.Missing["servers/s1_global/monitor.log"]; !strings.HasPrefix(got, "not-found: ") {
		t.Errorf("the reason for the missing log is %q, in %v", got, index.Missing)
	}
}

// debugOnce makes an archive of an agent. It returns the files, and why the archive lacks others.
func debugOnce(t *testing.T, address string) (files, missing map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	code, out, errs := clitest.Run(t, tree, "debug", "-address", address, "-duration", "1s", "-interval", "1s")
	if code != 0 {
		t.Fatalf("got %d %q %q", code, out, errs)
	}
	files = unpack(t, ".")
	var index struct{ Missing map[string]string }
	err := json.Unmarshal([]byte(files["index.json"]), &index)
	if err != nil {
		t.Fatal(err)
	}
	return files, index.Missing
}

// TestDebug_NamesWhatItLacks has an archive without the list of nodes, and with a log that ends early.
func TestDebug_NamesWhatItLacks(t *testing.T) {
	a := newAgent(t)
	delete(a.answers, "/v1/nodes")
	a.answers["/v1/agent/monitor"] = "a line"
	srv := httptest.NewServer(a)
	defer srv.Close()
	files, missing := debugOnce(t, srv.URL)
	const log = "servers/s1_global/monitor.log"
	if !strings.Contains(missing[log], "ended before the time") || files[log] == "" {
		t.Errorf("the log is %q, and missing for %q", files[log], missing[log])
	}
	if !strings.HasPrefix(missing["nodes"], "not-found: ") {
		t.Errorf("the index has %v", missing)
	}
}

// TestDebug_KeepsAgentsApart has two servers with names that differ in a character that no file name has, and
// one of them hangs.
func TestDebug_KeepsAgentsApart(t *testing.T) {
	defer debug.SetCaptureTime(3 * time.Second)()
	a := newAgent(t)
	members := []map[string]any{{"Name": "a.b"}, {"Name": "a_b"}}
	a.answers["/v1/agent/members"] = map[string]any{"Members": members}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/agent/host" && r.URL.Query().Get("server_id") == "a.b" {
			<-r.Context().Done()
			return
		}
		a.ServeHTTP(w, r)
	}))
	defer srv.Close()
	files, missing := debugOnce(t, srv.URL)
	if !strings.HasPrefix(missing["servers/a_b/host.json"], "timeout: ") ||
		files["servers/a_b/heap.pprof"] == "" {
		t.Errorf("the server that hangs: missing are %v", missing)
	}
	if files["servers/a_b-2/host.json"] == "" {
		t.Errorf("the other server has no host, the files are %v", reflect.ValueOf(files).MapKeys())
	}
}

// checkGolden compares a text with a file, or writes the file.
func checkGolden(t *testing.T, path, got string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || string(want) != got {
		t.Errorf("%s differs (%v) from the fields in the archive; read them, and run the test with -rewrite:\n%s",
			path, err, got)
	}
}

func TestDebug_WritesADirectory(t *testing.T) {
	srv := httptest.NewServer(newAgent(t))
	defer srv.Close()
	dir := t.TempDir()
	code, _, errs := clitest.Run(t, tree, "debug", "-address", srv.URL, "-duration", "1s", "-interval", "1s",
		"-output", dir, "-server-id", "none", "-node-id", "none", "-json")
	paths, _ := filepath.Glob(filepath.Join(dir, "berth-debug-*", "index.json"))
	if code != 0 || len(paths) != 1 {
		t.Errorf("got %d %q, and the files %q", code, errs, paths)
	}
}

func TestDebug_RejectsWrongOptions(t *testing.T) {
	srv := httptest.NewServer(newAgent(t))
	defer srv.Close()
	t.Chdir(t.TempDir())
	for options, want := range map[string]string{
		"-duration 0s":               "-duration is 0s",
		"-duration 48h":              "-duration is 48h",
		"-duration 5s -interval 6s":  "-interval is 6s",
		"-duration 5s -interval 1ms": "-interval is 1ms",
		"-output nowhere":            "-output: ",
		"-node-id n9 -duration 1m":   `there is no node "n9"`,
	} {
		args := append([]string{"debug", "-address", srv.URL}, strings.Fields(options)...)
		code, _, errs := clitest.Run(t, tree, args...)
		if code == 0 || !strings.Contains(errs, want) {
			t.Errorf("%s: got %d %q, want %q", options, code, errs, want)
		}
	}
	left, err := filepath.Glob("berth-debug-*")
	if err != nil || len(left) > 0 {
		t.Errorf("rejected calls have left %q, %v", left, err)
	}
}
