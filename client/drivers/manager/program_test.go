package manager

import (
	"bytes"
	"compress/gzip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/test/kit"
)

// runs reports whether the installed command ends well.
func runs(command []string) error {
	return exec.Command(command[0], command[1:]...).Run()
}

func pack(t *testing.T, content string) []byte {
	t.Helper()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := w.Write([]byte(content))
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

func TestInstall_ReplacesDamagedAndFormerPrograms(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "programs")
	mustInstall := func(content string) string {
		t.Helper()
		command, err := installProgram(dir, pack(t, content))
		if err != nil {
			t.Fatal(err)
		}
		if err := runs(command); err != nil {
			t.Errorf("%q: %v", content, err)
		}
		return command[0]
	}
	first := mustInstall("#!/bin/sh\nexit 0\n")
	before, err := os.Stat(first)
	if err != nil {
		t.Fatal(err)
	}
	mustInstall("#!/bin/sh\nexit 0\n")
	after, err := os.Stat(first)
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("the same program was written again (%v)", err)
	}
	if err := os.WriteFile(first, []byte("#!/bin/sh\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	mustInstall("#!/bin/sh\nexit 0\n")
	if err := os.WriteFile(first+".part", nil, 0o600); err != nil { // of an agent that was killed
		t.Fatal(err)
	}
	second := mustInstall("#!/bin/sh\ntrue\n")
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 || files[0] != second {
		t.Errorf("the directory has %q, want %s alone (%v)", files, second, err)
	}
}

// Another build starts on a full disk. It has no program until there is space.
func TestInstall_OnAFullDiskIsNone(t *testing.T) {
	disk := kit.MountDisk(t, "256k")
	dir := filepath.Join(disk, "programs")
	if command, err := installProgram(dir, pack(t, "#!/bin/sh\nexit 0\n")); err != nil || command == nil {
		t.Fatalf("got %q, %v", command, err)
	}
	next := pack(t, "#!/bin/sh\nexit 0\n"+strings.Repeat("#\n", 20_000))
	for _, left := range []uint64{0, 8192} {
		free := kit.FillDisk(t, disk, left)
		command, err := installProgram(dir, next)
		if command != nil || err != nil {
			t.Errorf("with %d bytes: got %q, %v", left, command, err)
		}
		if parts, _ := filepath.Glob(filepath.Join(dir, "*.part")); len(parts) > 0 {
			t.Errorf("with %d bytes: %q take space", left, parts)
		}
		free()
	}
	command, err := installProgram(dir, next)
	if err != nil || command == nil || runs(command) != nil {
		t.Errorf("with space: got %q, %v", command, err)
	}
}

func TestInstall_OfABuildWithoutAProgramIsNone(t *testing.T) {
	command, err := installProgram(t.TempDir(), nil)
	if command != nil || err != nil {
		t.Errorf("got %q, %v", command, err)
	}
}

func TestRelease_KeepsTheContent(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	want := bytes.Repeat([]byte{7}, 4*os.Getpagesize())
	if _, err := f.Write(want); err != nil {
		t.Fatal(err)
	}
	content, err := unix.Mmap(int(f.Fd()), 0, len(want), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(content) }()
	for _, part := range [][]byte{content, content[7 : len(want)-7], content[:1], nil} {
		releaseMemory(part)
		if !bytes.Equal(content, want) {
			t.Errorf("%d bytes: the content has changed", len(part))
		}
	}
}
