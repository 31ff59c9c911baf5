package dockertest

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"
)

// SavedImage is an image in an archive: the list of the archive has an entry of this form for each.
type SavedImage struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// File is a file of an archive.
type File struct {
	Name, Content string
}

// Saved returns an archive with files and, last, a list of images, as `docker save` makes it.
func Saved(t testing.TB, images []SavedImage, files ...File) []byte {
	t.Helper()
	list, err := json.Marshal(images)
	if err != nil {
		t.Fatal(err)
	}

	var archive bytes.Buffer
	out := tar.NewWriter(&archive)
	for _, f := range append(files, File{"manifest.json", string(list)}) {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.Name, Mode: 0o644, Size: int64(len(f.Content))}
		err := out.WriteHeader(h)
		if err == nil {
			_, err = io.WriteString(out, f.Content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}

	err = out.Close()
	if err != nil {
		t.Fatal(err)
	}

	return archive.Bytes()
}

// ReadSaved reads an archive. It returns the list of its images, and the content of all files by their names.
func ReadSaved(archive io.Reader) (images []SavedImage, files map[string]string, err error) {
	files = map[string]string{}
	for in := tar.NewReader(archive); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, err
		}

		content, err := io.ReadAll(in)
		if err != nil {
			return nil, nil, err
		}

		files[h.Name] = string(content)
	}

	err = json.Unmarshal([]byte(files["manifest.json"]), &images)
	return images, files, err
}
