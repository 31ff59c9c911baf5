// Command image writes the container image of berth as an archive for "docker load" and "podman load". The
// image has the program, a configuration of a server on loopback, and nothing else. The same input makes the
// same archive.
//
//	image <program> <architecture> <archive>
//
// The environment variable SOURCE_DATE_EPOCH has the seconds of its date.
package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"berth/internal/version"
)

// settings is the configuration in the image. A mount on /etc/berth replaces it.
//
//go:embed berth.hcl
var settings []byte

func main() {
	err := run(os.Args[1:], os.Getenv("SOURCE_DATE_EPOCH"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string, epoch string) error {
	if len(args) != 3 {
		return fmt.Errorf("%d arguments are given; expected a program, its architecture and an archive", len(args))
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH is %q; expected the seconds of a date", epoch)
	}
	program, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	archive, err := build(program, args[1], time.Unix(seconds, 0).UTC())
	if err != nil {
		return err
	}
	return os.WriteFile(args[2], archive, 0o644)
}

// entry is a file or, if its name ends with a slash, a directory.
type entry struct {
	name    string
	mode    int64
	content []byte
}

// config is the configuration of an image (OCI image specification, config.md).
type config struct {
	Architecture string    `json:"architecture"`
	OS           string    `json:"os"`
	Created      time.Time `json:"created"`
	Config       process   `json:"config"`
	RootFS       rootFS    `json:"rootfs"`
}

// process is the process of a container.
type process struct {
	Entrypoint   []string
	Cmd          []string
	Env          []string
	ExposedPorts map[string]struct{}
	Volumes      map[string]struct{}
	StopSignal   string
	Labels       map[string]string
}

// rootFS has the digests of the layers.
type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

// manifest is the index of an archive of docker.
type manifest struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// build returns the archive of an image.
func build(program []byte, arch string, created time.Time) ([]byte, error) {
	layer, err := pack(created, []entry{
		{"etc/", 0o755, nil},
		{"etc/berth/", 0o755, nil},
		{"etc/berth/berth.hcl", 0o644, settings},
		{"etc/group", 0o644, []byte("root:x:0:\n")},
		{"etc/passwd", 0o644, []byte("root:x:0:0:root:/:/sbin/nologin\n")},
		{"tmp/", 0o1777, nil},
		{"usr/", 0o755, nil},
		{"usr/bin/", 0o755, nil},
		{"usr/bin/berth", 0o755, program},
		{"var/", 0o755, nil},
		{"var/lib/", 0o755, nil},
		{"var/lib/berth/", 0o711, nil},
	})
	if err != nil {
		return nil, err
	}

	about, err := json.Marshal(config{
		Architecture: arch,
		OS:           "linux",
		Created:      created,
		Config:       agent(),
		RootFS: rootFS{
			Type:    "layers",
			DiffIDs: []string{"sha256:" + digest(layer)},
		},
	})
	if err != nil {
		return nil, err
	}

	aboutName := digest(about) + ".json"
	layerName := digest(layer) + ".tar"
	index, err := json.Marshal([]manifest{{
		Config:   aboutName,
		RepoTags: []string{"berth:" + version.Version},
		Layers:   []string{layerName},
	}})
	if err != nil {
		return nil, err
	}
	return pack(created, []entry{
		{layerName, 0o644, layer},
		{aboutName, 0o644, about},
		{"manifest.json", 0o644, index},
	})
}

// agent returns the process of the image: an agent.
func agent() process {
	return process{
		Entrypoint: []string{"/usr/bin/berth"},
		Cmd:        []string{"agent", "-config", "/etc/berth"},
		Env:        []string{"PATH=/usr/bin"},
		ExposedPorts: map[string]struct{}{
			"4746/tcp": {},
			"4747/tcp": {},
			"4748/tcp": {},
			"4748/udp": {},
		},
		Volumes:    map[string]struct{}{"/var/lib/berth": {}},
		StopSignal: "SIGTERM",
		Labels: map[string]string{
			"org.opencontainers.image.title":    "berth",
			"org.opencontainers.image.version":  version.Version,
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
}

// pack returns a tar archive of entries of root.
func pack(modified time.Time, entries []entry) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{
			Name:     e.name,
			Mode:     e.mode,
			Size:     int64(len(e.content)),
			ModTime:  modified,
			Typeflag: tar.TypeReg,
			Format:   tar.FormatUSTAR,
		}
		if e.name[len(e.name)-1] == '/' {
			h.Typeflag = tar.TypeDir
		}
		err := w.WriteHeader(h)
		if err == nil {
			_, err = w.Write(e.content)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("packing %s: %w", e.name, err), w.Close())
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
