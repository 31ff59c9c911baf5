package interop

import (
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"berth/endpoints/injection"
	"berth/jobspec"
	"berth/structs/defaults"
)

var update = flag.Bool("update", false, "write the golden files again")

// The number of job files of the peer's module, in its tests of whole clusters and among those with CSI.
const (
	clusterFiles = 158
	csiFiles     = 23
)

var (
	hasJob = regexp.MustCompile(`(?m)^ *job +\S`)
	hasCSI = regexp.MustCompile(`csi_plugin|type *= *"csi"`)
)

// jobFileVariables has the variables without a default, whose values the peer's tests pass.
var jobFileVariables = []string{
	"NOMAD_VAR_X=x",
	"NOMAD_VAR_Y=1",
	"NOMAD_VAR_Z=true",
	"NOMAD_VAR_cmd=true",
	"NOMAD_VAR_delay=1s",
	"NOMAD_VAR_empty_constraint=",
	"NOMAD_VAR_empty_key=k",
	"NOMAD_VAR_foo_constraint=foo",
	"NOMAD_VAR_foo_key=k",
	"NOMAD_VAR_nodeID=n",
	"NOMAD_VAR_security_groups=[\"a\"]",
	"NOMAD_VAR_service=s",
	"NOMAD_VAR_subnets=[\"a\"]",
	"NOMAD_VAR_unset_constraint=",
	"NOMAD_VAR_unset_key=k",
}

// TestJobFiles_OfThePeer parses and validates the job files in the module of the peer, and compares the
// rejected ones and their reasons with a golden file, which -update writes.
func TestJobFiles_OfThePeer(t *testing.T) {
	root := peerModule(t)
	home := t.TempDir()
	t.Setenv("HOME", home)
	key := filepath.Join(home, ".ssh", "id_rsa") // a file reads it
	err := os.MkdirAll(filepath.Dir(key), 0o700)
	if err == nil {
		err = os.WriteFile(key, []byte("key"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	var cluster, csi []string
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !isJobFile(path) {
			return err
		}
		src, err := os.ReadFile(path)
		if err != nil || !hasJob.Match(src) {
			return err
		}
		name, err := filepath.Rel(root, path)
		if strings.HasPrefix(name, "e2e/") {
			cluster = append(cluster, name)
		}
		if hasCSI.Match(src) {
			csi = append(csi, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(cluster) != clusterFiles || len(csi) != csiFiles {
		t.Errorf("got %d and %d files, want %d and %d", len(cluster), len(csi), clusterFiles, csiFiles)
	}
	rejected := map[string]string{}
	for _, name := range slices.Concat(cluster, csi) {
		reason := rejection(t, root, name, key)
		if reason != "" {
			rejected[name] = reason
		}
	}
	text := summary("tests of clusters", cluster, rejected) + summary("CSI", csi, rejected)
	for _, name := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(cluster, csi)))) {
		if rejected[name] != "" {
			text += "\n" + name + "\n" + rejected[name]
		}
	}
	compareGolden(t, "testdata/rejected_job_files.txt", text)
}

// peerModule returns the folder of the peer's module, which test/peer pins.
func peerModule(t *testing.T) string {
	t.Helper()
	cmd := exec.Command("go", "mod", "download", "-json", "github.com/hashicorp/nomad")
	cmd.Dir = "../peer"
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the peer's module is not there: %v", err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		t.Fatal(err)
	}
	return module.Dir
}

func isJobFile(path string) bool {
	ext := filepath.Ext(path)
	return ext == ".nomad" || ext == ".hcl"
}

// rejection returns the reasons for which berth rejects a job file, a line for each, and "" if it accepts it.
// The functions of the file may read the allowed file.
func rejection(t *testing.T, root, name, allowed string) string {
	t.Helper()
	path := filepath.Join(root, name)
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := jobspec.ReadJob(name, src, &jobspec.Inputs{
		Dir:     filepath.Dir(path),
		Allowed: []string{allowed},
		Env:     jobFileVariables,
	})
	if err == nil {
		defaults.Canonicalize(f.Job)
		err = injection.AddSidecars(f.Job).Err()
	}
	if err == nil {
		return ""
	}
	var reasons []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		_, fault, found := strings.Cut(line, ": ")
		if !found {
			fault = line
		}
		reasons = append(reasons, "  "+fault+"\n")
	}
	slices.Sort(reasons)
	return strings.Join(slices.Compact(reasons), "")
}

func summary(kind string, files []string, rejected map[string]string) string {
	accepted := 0
	for _, name := range files {
		if rejected[name] == "" {
			accepted++
		}
	}
	return fmt.Sprintf("%s: %d of %d accepted\n", kind, accepted, len(files))
}

func compareGolden(t *testing.T, golden, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("%s differs (see -update); got\n%s", golden, got)
	}
}
