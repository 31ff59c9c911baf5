package images

import (
	"bytes"
	"compress/gzip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"berth/client/drivers/docker/dockertest"
	"berth/structs"
)

// renamed copies an archive by nameAlone.
func renamed(archive []byte, ref string) ([]dockertest.SavedImage, map[string]string, error) {
	var out bytes.Buffer
	err := nameAlone(&out, bytes.NewReader(archive), ref, "own:1")
	if err != nil {
		return nil, nil, err
	}
	return dockertest.ReadSaved(&out)
}

// TestNameAlone_KeepsOneImageWithoutTheNamesOfTheArchive: all other lists of names go, however they are
// spelled.
func TestNameAlone_KeepsOneImageWithoutTheNamesOfTheArchive(t *testing.T) {
	digits := strings.Repeat("ab", 32)
	archive := dockertest.Saved(t,
		[]dockertest.SavedImage{
			{Config: "x.json", RepoTags: []string{"berth-pause:1", "db:1"}, Layers: []string{"l1"}},
			{Config: digits + ".json", RepoTags: []string{"a:1", "b:1"}, Layers: []string{"l2"}},
		},
		dockertest.File{Name: "l1", Content: "one"},
		dockertest.File{Name: "l2", Content: "two"},
		dockertest.File{Name: "./x/../manifest.json", Content: "[]"},
		dockertest.File{Name: "repositories", Content: "{}"},
		dockertest.File{Name: "./repositories", Content: "{}"},
		dockertest.File{Name: "index.json", Content: "{}"},
		dockertest.File{Name: "/oci-layout", Content: "{}"},
	)
	want := []dockertest.SavedImage{
		{Config: digits + ".json", RepoTags: []string{"own:1"}, Layers: []string{"l2"}},
	}
	for _, ref := range []string{"a:1", "docker.io/library/b:1", "sha256:" + digits} {
		images, files, err := renamed(archive, ref)
		if err != nil || !reflect.DeepEqual(images, want) {
			t.Errorf("%s: got %+v, %v", ref, images, err)
		}
		if len(files) != 3 || files["l1"] != "one" || files["l2"] != "two" {
			t.Errorf("%s: the files are %v", ref, files)
		}
	}
}

func TestNameAlone_ReadsACompressedArchive(t *testing.T) {
	var zipped bytes.Buffer
	out := gzip.NewWriter(&zipped)
	_, err := out.Write(dockertest.Saved(t, []dockertest.SavedImage{{RepoTags: []string{"a:latest"}}}))
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	images, _, err := renamed(zipped.Bytes(), "a")
	if err != nil || len(images) != 1 || !slices.Equal(images[0].RepoTags, []string{"own:1"}) {
		t.Errorf("got %+v, %v", images, err)
	}
}

func TestNameAlone_NamesTheFaultOfAnArchive(t *testing.T) {
	saved := dockertest.Saved(t, []dockertest.SavedImage{{RepoTags: []string{"b:1"}}})
	for want, archive := range map[string][]byte{
		`the archive has no image a:1; it has ["b:1"]`: saved,
		"the archive has no manifest.json":             make([]byte, 1024),
		"the file is no archive of an image":           []byte(strings.Repeat("garbage", 512)),
		"manifest.json has more than 1048576 bytes": dockertest.Saved(t, []dockertest.SavedImage{
			{RepoTags: []string{strings.Repeat("x", maxManifest)}},
		}),
	} {
		_, _, err := renamed(archive, "a:1")
		if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func FuzzNameAlone(f *testing.F) {
	f.Add(dockertest.Saved(f, []dockertest.SavedImage{{RepoTags: []string{"a:1", "berth-pause:1"}}},
		dockertest.File{Name: "repositories", Content: "{}"}))
	f.Fuzz(func(t *testing.T, archive []byte) {
		images, files, err := renamed(archive, "a:1")
		if err != nil {
			return
		}
		if len(images) != 1 || !slices.Equal(images[0].RepoTags, []string{"own:1"}) {
			t.Errorf("the images are %+v", images)
		}
		for _, name := range lists[1:] {
			if _, has := files[name]; has {
				t.Errorf("the copy has %s", name)
			}
		}
	})
}
