package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// unpack returns the files of a tar archive by their names, and the modes of all entries.
func unpack(t *testing.T, archive []byte) (files map[string][]byte, modes map[string]int64) {
	t.Helper()
	files = map[string][]byte{}
	modes = map[string]int64{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, modes
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil || h.ModTime.Unix() != 1700000000 || h.Uid != 0 {
			t.Fatalf("%s: %+v, %v", h.Name, h, err)
		}
		files[h.Name] = content
		modes[h.Name] = h.Mode
	}
}

func TestRun_MakesAnImageWhoseDigestsFit(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "berth")
	err := os.WriteFile(program, []byte("the program"), 0o700)
	if err != nil {
		t.Fatal(err)
	}
	var archives [][]byte
	for _, name := range []string{"first", "second"} {
		path := filepath.Join(dir, name)
		err = run([]string{program, "arm64", path}, "1700000000")
		if err != nil {
			t.Fatal(err)
		}
		archive, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		archives = append(archives, archive)
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two archives of one program differ")
	}

	files, _ := unpack(t, archives[0])
	var index []manifest
	err = json.Unmarshal(files["manifest.json"], &index)
	if err != nil || len(index) != 1 || len(index[0].Layers) != 1 {
		t.Fatalf("the index is %s: %v", files["manifest.json"], err)
	}
	about := files[index[0].Config]
	layer := files[index[0].Layers[0]]
	var c config
	err = json.Unmarshal(about, &c)
	if err != nil || index[0].Config != digest(about)+".json" || c.Architecture != "arm64" ||
		c.RootFS.DiffIDs[0] != "sha256:"+digest(layer) {
		t.Errorf("the configuration is %s: %v", about, err)
	}
	content, modes := unpack(t, layer)
	if string(content["usr/bin/berth"]) != "the program" || modes["usr/bin/berth"] != 0o755 ||
		modes["tmp/"] != 0o1777 || !strings.Contains(string(content["etc/berth/berth.hcl"]), `"127.0.0.1"`) {
		t.Errorf("the layer has %v", modes)
	}
}

func TestRun_NamesItsFaults(t *testing.T) {
	for want, args := range map[string][]string{
		"1 arguments":       {"berth"},
		"SOURCE_DATE_EPOCH": {"berth", "amd64", "archive"},
	} {
		err := run(args, "")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if err := run([]string{"/none", "amd64", "/none"}, "1"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
