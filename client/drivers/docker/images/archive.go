package images

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/distribution/reference"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"berth/structs"
)

const (
	manifestName = "manifest.json"
	// maxManifest bounds the list of the images of an archive.
	maxManifest = 1 << 20
	// maxWindow bounds the memory of a decoder.
	maxWindow = 128 << 20
	// maxTagsShown bounds the tags in an error.
	maxTagsShown = 5
)

// lists are the files of an archive that name its images. A daemon reads one of them, by its version.
var lists = []string{manifestName, "repositories", "index.json", "oci-layout"}

// manifestEntry is an image in the list of an archive, as `docker save` writes it.
type manifestEntry struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// nameAlone copies the archive in to out. The copy has the image ref alone, under another name: the daemon
// gives each image of an archive the names that the archive has for it, and takes them from other images. The
// list of the copy is its last file, so no file before it, and no link to it, has an effect.
func nameAlone(out io.Writer, in io.Reader, ref, name string) error {
	content, err := decompress(in)
	if err != nil {
		return structs.Preconditionf("config.load: %w", err)
	}

	archive := tar.NewReader(content)
	copied := tar.NewWriter(out)
	var manifest []byte
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return structs.Preconditionf("config.load: the file is no archive of an image: %w", err)
		}

		// To the daemon, ./manifest.json is the same file.
		switch base := strings.TrimPrefix(path.Clean("/"+h.Name), "/"); {
		case base == manifestName:
			manifest, err = io.ReadAll(io.LimitReader(archive, maxManifest+1))
		case !slices.Contains(lists, base):
			err = copyFile(copied, h, archive)
		}
		if err != nil {
			return err
		}
	}

	list, err := selectImage(manifest, ref, name)
	if err != nil {
		return err
	}

	h := &tar.Header{Typeflag: tar.TypeReg, Name: manifestName, Mode: 0o644, Size: int64(len(list))}
	err = copyFile(copied, h, bytes.NewReader(list))
	return errors.Join(err, copied.Close())
}

func copyFile(out *tar.Writer, h *tar.Header, content io.Reader) error {
	err := out.WriteHeader(h)
	if err == nil {
		_, err = io.Copy(out, content)
	}
	return err
}

// selectImage returns the list with one image of a list, under another name.
func selectImage(manifest []byte, ref, name string) ([]byte, error) {
	if len(manifest) > maxManifest {
		return nil, structs.Preconditionf("config.load: %s has more than %d bytes", manifestName, maxManifest)
	}

	if manifest == nil {
		return nil, structs.Preconditionf("config.load: the archive has no %s; make it by docker save",
			manifestName)
	}

	var images []manifestEntry
	err := json.Unmarshal(manifest, &images)
	if err != nil {
		return nil, structs.Preconditionf("config.load: %s: %w", manifestName, err)
	}

	var tags []string
	for _, image := range images {
		if image.is(ref) {
			image.RepoTags = []string{name}
			return json.Marshal([]manifestEntry{image})
		}

		tags = append(tags, image.RepoTags...)
	}

	shown := fmt.Sprintf("%q", tags[:min(len(tags), maxTagsShown)])
	return nil, structs.Preconditionf("config.load: the archive has no image %s; it has %s", ref,
		structs.Cut(shown, structs.MaxQuoted))
}

// is reports whether an image has a name, or the ID that ref is.
func (e manifestEntry) is(ref string) bool {
	digest, isID := imageID(ref)
	if isID {
		return strings.Contains(path.Base(e.Config), digest)
	}

	want, err := reference.ParseDockerRef(ref)
	if err != nil {
		return false
	}

	return slices.ContainsFunc(e.RepoTags, func(tag string) bool {
		named, err := reference.ParseDockerRef(tag)
		return err == nil && named.String() == want.String()
	})
}

// imageID returns the hexadecimal digits of a reference that is the ID of an image.
func imageID(ref string) (digits string, ok bool) {
	r, err := reference.ParseAnyReference(ref)
	if err != nil {
		return "", false
	}

	digested, ok := r.(reference.Digested)
	_, named := r.(reference.Named)
	if !ok || named {
		return "", false
	}

	return digested.Digest().Encoded(), true
}

// formats are the compressions that a daemon accepts, by the first bytes of a file.
var formats = []struct {
	magic string
	open  func(io.Reader) (io.Reader, error)
}{
	{"\x1f\x8b", func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }},
	{"BZh", func(r io.Reader) (io.Reader, error) { return bzip2.NewReader(r), nil }},
	{"\xfd7zXZ\x00", func(r io.Reader) (io.Reader, error) { return xz.NewReader(r) }},
	{"\x28\xb5\x2f\xfd", func(r io.Reader) (io.Reader, error) {
		// With one decoder nothing runs beside the reader, which nobody closes.
		return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxWindow))
	}},
}

// decompress returns the content of a file that may be compressed.
func decompress(in io.Reader) (io.Reader, error) {
	file := bufio.NewReader(in)
	for _, f := range formats {
		head, err := file.Peek(len(f.magic))
		if err == nil && string(head) == f.magic {
			return f.open(file)
		}
	}
	return file, nil
}
