package dockertest

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/moby/moby/client"
)

var (
	building sync.Once
	program  []byte
	buildErr error
)

// Program is the file "program" of this package's images, built once: see its package.
func Program(t testing.TB) []byte {
	t.Helper()
	// All tests of a process share the build, which takes seconds.
	building.Do(func() {
		dir, err := os.MkdirTemp("", "dp")
		if err != nil {
			buildErr = err
			return
		}
		defer os.RemoveAll(dir)

		path := filepath.Join(dir, "program")
		build := exec.Command("go", "build", "-ldflags=-s -w", "-o", path,
			"berth/client/drivers/docker/dockertest/program")
		// The images have no libraries.
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		out, err := build.CombinedOutput()
		if err != nil {
			buildErr = errors.Join(err, errors.New(string(out)))
			return
		}

		program, buildErr = os.ReadFile(path)
	})

	if buildErr != nil {
		t.Fatal(buildErr)
	}

	return program
}

// passwd names the users of the images.
const passwd = "root:x:0:0:root:/:/program\nweb:x:1234:4321:web:/:/program\n"

// Import gives the daemon an image whose entry point is the program. changes are lines of a Dockerfile.
func (d *Daemon) Import(ref string, changes ...string) {
	d.t.Helper()
	root := newRoot(d.t)
	root.add("program", 0o755, Program(d.t))
	d.load(ref, root, append([]string{`ENTRYPOINT ["/program"]`}, changes...))
}

// ImportFiles gives the daemon an image with files of this machine, each with the libraries that it needs.
// files has the paths of this machine by those in the image.
func (d *Daemon) ImportFiles(ref string, files map[string]string, changes ...string) {
	d.t.Helper()
	root := newRoot(d.t)
	for path, source := range files {
		root.copy(path, source)
		for _, library := range libraries(source) {
			root.copy(library, library)
		}
	}
	d.load(ref, root, changes)
}

// libraries lists the shared libraries of a program, none for a static one. The output of ldd has the paths
// between other words.
func libraries(path string) []string {
	out, err := exec.Command("ldd", path).Output()
	if err != nil {
		return nil
	}

	var found []string
	for _, word := range strings.Fields(string(out)) {
		if filepath.IsAbs(word) {
			found = append(found, word)
		}
	}

	return found
}

// root is an archive of the content of an image.
type root struct {
	t       testing.TB
	archive bytes.Buffer
	writer  *tar.Writer
	// A library that two programs need is in the archive once.
	has map[string]bool
}

// newRoot has users, and places for what berth mounts.
func newRoot(t testing.TB) *root {
	r := &root{t: t, has: map[string]bool{}}
	r.writer = tar.NewWriter(&r.archive)
	r.addDir("etc")
	r.addDir("tmp")
	r.add("etc/passwd", 0o644, []byte(passwd))
	return r
}

// addDir adds a directory and those above it. The daemon would give one that is missing to root alone.
func (r *root) addDir(path string) {
	r.t.Helper()
	if path == "." || r.has[path] {
		return
	}

	r.addDir(filepath.Dir(path))
	r.has[path] = true
	err := r.writer.WriteHeader(&tar.Header{
		Typeflag: tar.TypeDir,
		Name:     path + "/",
		Mode:     0o755,
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// add adds a file, unless the archive has one of that path.
func (r *root) add(path string, mode int64, content []byte) {
	r.t.Helper()
	path = strings.TrimPrefix(path, "/")
	if r.has[path] {
		return
	}

	r.addDir(filepath.Dir(path))
	r.has[path] = true
	err := r.writer.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg,
		Name:     path,
		Mode:     mode,
		Size:     int64(len(content)),
	})

	if err == nil {
		_, err = r.writer.Write(content)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// copy adds a file of this machine.
func (r *root) copy(path, source string) {
	r.t.Helper()
	content, err := os.ReadFile(source)
	if err != nil {
		r.t.Fatal(err)
	}
	r.add(path, 0o755, content)
}

// load imports an archive.
func (d *Daemon) load(ref string, r *root, changes []string) {
	d.t.Helper()
	err := r.writer.Close()
	if err != nil {
		d.t.Fatal(err)
	}

	api, err := client.New(client.WithHost(d.Endpoint()))
	if err != nil {
		d.t.Fatal(err)
	}
	defer api.Close()

	answer, err := api.ImageImport(d.t.Context(),
		client.ImageImportSource{Source: &r.archive, SourceName: "-"}, ref,
		client.ImageImportOptions{Changes: changes})
	if err != nil {
		d.t.Fatal(err)
	}
	defer answer.Close()

	// The daemon has made the image when its answer has ended.
	_, err = io.Copy(io.Discard, answer)
	if err != nil {
		d.t.Fatal(err)
	}
}

// Save returns an archive with images, as `docker save` makes it.
func (d *Daemon) Save(refs ...string) []byte {
	d.t.Helper()
	api, err := client.New(client.WithHost(d.Endpoint()))
	if err != nil {
		d.t.Fatal(err)
	}
	defer api.Close()
	stream, err := api.ImageSave(d.t.Context(), refs)
	if err != nil {
		d.t.Fatal(err)
	}
	defer stream.Close()
	archive, err := io.ReadAll(stream)
	if err != nil {
		d.t.Fatal(err)
	}

	return archive
}
