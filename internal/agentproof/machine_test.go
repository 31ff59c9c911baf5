package agentproof

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/structs"
)

// rootWith makes a root directory with files.
func rootWith(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestReadMachine_TakesWhatIdentifiesOneMachine(t *testing.T) {
	const (
		uuid    = "4C4C4544-0043-3510-8052-B9C04F4E3332\n"
		machine = "3d1219c7c4c5404aaa1f6d2a48adfda4\n"
	)
	product := structs.MachineID("product:" + digest("4c4c4544-0043-3510-8052-b9c04f4e3332"))
	byDisk := structs.MachineID("machine:" + digest("3d1219c7c4c5404aaa1f6d2a48adfda4"))
	for name, c := range map[string]struct {
		files map[string]string
		want  structs.MachineID
	}{
		"nothing":           {nil, ""},
		"both":              {map[string]string{productFile: uuid, machineFile: machine}, product + " " + byDisk},
		"the product alone": {map[string]string{productFile: uuid}, product},
		"a filler": {map[string]string{
			productFile: "03000200-0400-0500-0006-000700080009\n", machineFile: machine}, byDisk},
		"one digit": {map[string]string{
			productFile: "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", machineFile: machine}, byDisk},
		"no UUID": {map[string]string{productFile: "Not Settable", machineFile: machine}, byDisk},
		"a container of docker": {map[string]string{
			productFile: uuid, machineFile: machine, ".dockerenv": ""}, byDisk},
		"a container of systemd": {map[string]string{
			productFile: uuid, machineFile: machine, "proc/1/environ": "A=b\x00container=lxc\x00"}, byDisk},
		"no container": {map[string]string{
			productFile: uuid, machineFile: machine, "proc/1/environ": "A=container=\x00"},
			product + " " + byDisk},
		"a first boot": {map[string]string{machineFile: "uninitialized\n"}, ""},
		"zeros":        {map[string]string{machineFile: "00000000000000000000000000000000\n"}, ""},
		"a handed UUID": {
			map[string]string{handedFile: uuid, machineFile: machine}, product + " " + byDisk},
		"a handed UUID, and that of the machine": {map[string]string{
			handedFile: "00000000-0043-3510-8052-b9c04f4e3333\n", productFile: uuid}, product},
		"a handed UUID in a container": {map[string]string{
			handedFile: uuid, machineFile: machine, "run/systemd/container": "lxc"}, byDisk},
		"a handed file without a UUID": {map[string]string{
			handedFile: strings.Repeat("4", 1<<20), machineFile: machine}, byDisk},
		"the UUID of the host as machine-id": {map[string]string{
			productFile: uuid, machineFile: uuid, ".dockerenv": ""},
			structs.MachineID("machine:" + digest("4c4c4544-0043-3510-8052-b9c04f4e3332"))},
		"a filler as machine-id": {map[string]string{
			machineFile: "03000200-0400-0500-0006-000700080009\n"}, ""},
	} {
		if got := readMachine(rootWith(t, c.files), inMemory); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// inMemory takes the files of a test for files in memory.
func inMemory(*os.File) bool { return true }

// A server that is not root runs on a clone of its machine, with the same machine-id.
func TestReadMachine_TellsAClone(t *testing.T) {
	const machine = "3d1219c7c4c5404aaa1f6d2a48adfda4\n"
	original := rootWith(t, map[string]string{
		handedFile: "4c4c4544-0043-3510-8052-b9c04f4e3332\n", machineFile: machine})
	clone := rootWith(t, map[string]string{
		handedFile: "6f2a9c1e-5b1d-4c3a-9a55-0d1e2f3a4b5c\n", machineFile: machine})
	if readMachine(original, inMemory).Same(readMachine(clone, inMemory)) {
		t.Error("the clone passes for the original")
	}
	onDisk := func(*os.File) bool { return false }
	if readMachine(original, onDisk) != readMachine(clone, onDisk) {
		t.Error("a file counts that a copy of the disk brings along")
	}
}

func TestIsInMemory(t *testing.T) {
	for path, want := range map[string]bool{"/dev/shm": true, "/proc": false} {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := isInMemory(f); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestMachineID_ComparesWhatBothHave(t *testing.T) {
	for _, c := range []struct {
		a, b structs.MachineID
		want bool
	}{
		{"product:1 machine:1", "product:1 machine:1", true},
		{"product:1 machine:1", "product:2 machine:1", false}, // a copy of the disk
		{"product:1 machine:1", "product:1 machine:2", true},  // a new system on it
		{"product:1 machine:1", "machine:1", true},            // a server that cannot read the UUID
		{"product:1 machine:1", "machine:2", false},
		{"product:1", "machine:1", false},
		{"product:1", "", false},
		{"", "", false},
	} {
		if c.a.Same(c.b) != c.want || c.b.Same(c.a) != c.want {
			t.Errorf("%q and %q are the same: %v, want %v", c.a, c.b, !c.want, c.want)
		}
	}
}
