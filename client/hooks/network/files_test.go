package network

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"berth/structs"
)

func TestNodeDNS_HasServersThatTasksReach(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	stub := write("stub", "# a comment\nnameserver 127.0.0.53\noptions edns0 trust-ad\nsearch a.b\n")
	real := write("real", "domain x\nsearch c.d e\nnameserver 10.0.0.1\nnameserver fd00::1\nnameserver bad\n")
	missing := filepath.Join(dir, "missing")
	stubDNS := &structs.DNSConfig{
		Servers:  []string{"127.0.0.53"},
		Searches: []string{"a.b"},
		Options:  []string{"edns0", "trust-ad"},
	}
	realDNS := &structs.DNSConfig{
		Servers:  []string{"10.0.0.1", "fd00::1"},
		Searches: []string{"c.d", "e"},
	}
	for _, c := range []struct {
		files    []string
		isolated bool
		want     *structs.DNSConfig
	}{
		{[]string{stub, real}, false, stubDNS},
		{[]string{stub, real}, true, realDNS},
		{[]string{real, stub}, true, realDNS},
		{[]string{stub, missing}, true, stubDNS},
		{[]string{missing, missing}, true, &structs.DNSConfig{}},
	} {
		if got := nodeDNS(c.files, c.isolated); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v, isolated %v: got %+v, want %+v", c.files, c.isolated, got, c.want)
		}
	}
}

func TestUp_WritesTheSettingsOfTheJob(t *testing.T) {
	f := newFake(t)
	for _, mode := range []string{structs.NetworkModeHost, structs.NetworkModeBridge} {
		env := envOf(mode, &structs.NetworkResource{
			Mode: mode,
			DNS: &structs.DNSConfig{
				Servers:  []string{"10.1.1.1", "10.1.1.2"},
				Searches: []string{"${x}.example"},
				Options:  []string{"ndots:2"},
			},
		})
		h := New(f.config(), env)
		if err := h.Up(t.Context(), env); err != nil {
			t.Fatal(err)
		}
		n := env.Network()
		b, err := os.ReadFile(n.Resolver)
		want := "search expanded.example\nnameserver 10.1.1.1\nnameserver 10.1.1.2\noptions ndots:2\n"
		if err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", mode, b, err)
		}
		info, err := os.Stat(n.Resolver)
		if err != nil || info.Mode().Perm() != 0o644 {
			t.Errorf("%s: %v, %v", mode, info, err)
		}
		if isolated := mode == structs.NetworkModeBridge; isolated != (n.Hosts != "") ||
			isolated != (n.Namespace != "") || isolated != (n.Status != nil) {
			t.Errorf("%s: %+v", mode, n)
		}
	}
}

func TestUp_RejectsExpandedTextsOfOtherSettings(t *testing.T) {
	for name, n := range map[string]*structs.NetworkResource{
		"server":   {Mode: "host", DNS: &structs.DNSConfig{Servers: []string{"${x}"}}},
		"search":   {Mode: "host", DNS: &structs.DNSConfig{Searches: []string{"${x}\nnameserver 1.1.1.1"}}},
		"option":   {Mode: "host", DNS: &structs.DNSConfig{Options: []string{"a ${x}"}}},
		"hostname": {Mode: "none", Hostname: "a ${x}"},
	} {
		env := envOf("a", n)
		err := New(newFake(t).config(), env).Up(t.Context(), env)
		if !structs.IsKind(err, structs.KindInvalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// A file that is mounted into a task keeps its place on the disk, so that the task sees it.
func TestWriteFile_KeepsAnEqualFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	var before os.FileInfo
	for i, text := range []string{"a", "a", "b"} {
		if err := writeFile(path, text); err != nil {
			t.Fatal(err)
		}
		now, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 && os.SameFile(before, now) != (i == 1) {
			t.Errorf("write %d: wrong file", i)
		}
		before = now
	}
}
