package download

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/hashicorp/go-getter/v2"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// unpacker opens the compressed part of an archive.
type unpacker func(io.Reader) (io.Reader, error)

var (
	openGzip  = func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }
	openBzip2 = func(r io.Reader) (io.Reader, error) { return bzip2.NewReader(r), nil }
	openXz    = func(r io.Reader) (io.Reader, error) { return xz.NewReader(bufio.NewReader(r)) }
	openZstd  = func(r io.Reader) (io.Reader, error) {
		return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxWindow))
	}
)

// maxWindow bounds the memory of a decoder.
const maxWindow = 128 << 20

// tars are the formats of tar archives.
var tars = map[string]unpacker{
	"tar":     func(r io.Reader) (io.Reader, error) { return r, nil },
	"tar.gz":  openGzip,
	"tgz":     openGzip,
	"tar.bz2": openBzip2,
	"tbz2":    openBzip2,
	"tar.xz":  openXz,
	"txz":     openXz,
	"tar.zst": openZstd,
	"tzst":    openZstd,
}

// decompressors returns go-getter's decompressors with limits and further checks.
func decompressors(l Limits) map[string]getter.Decompressor {
	// go-getter cuts a compressed file at the limit. One byte more shows that it was larger.
	list := getter.LimitedDecompressors(l.UnpackedFiles, l.UnpackedSize.Bytes+1)
	for format, d := range list {
		list[format] = &checked{d, format, l}
	}
	return list
}

// checked rejects archives that have anything but files and directories, and those above the limits.
// go-getter makes an ordinary file of a link.
type checked struct {
	getter.Decompressor
	format string
	limits Limits
}

func (c *checked) Decompress(dst, src string, dir bool, umask os.FileMode) error {
	err := c.checkEntries(src)
	if err == nil {
		err = c.Decompressor.Decompress(dst, src, dir, umask)
	}
	// The entries of a directory are counted before and while they are unpacked. A single file ends one byte
	// above the limit.
	if err != nil || dir {
		return err
	}
	info, err := os.Stat(dst)
	if err == nil && info.Size() > c.limits.UnpackedSize.Bytes {
		err = c.tooLarge()
	}
	return err
}

func (c *checked) tooLarge() error {
	most := c.limits.UnpackedSize
	return c.limits.exceeded(most.Passing,
		"the archive has more than %d bytes when it is unpacked (%s)", most.Bytes, most.By)
}

func (c *checked) tooMany() error {
	return c.limits.exceeded(false,
		"the archive has more than %d entries (decompression_file_count_limit of the agent)",
		c.limits.UnpackedFiles)
}

// checkEntries reads the table of an archive before anything is unpacked.
func (c *checked) checkEntries(src string) error {
	if c.format == "zip" {
		return c.checkZip(src)
	}

	open, isTar := tars[c.format]
	// A compressed file has no table.
	if !isTar {
		return nil
	}

	f, err := os.Open(src)
	if err != nil {
		return err
	}
	defer f.Close()

	r, err := open(f)
	if err != nil {
		return fmt.Errorf("reading the archive: %w", err)
	}

	return c.checkTar(tar.NewReader(r))
}

// checkZip reads the table of a zip file.
func (c *checked) checkZip(src string) error {
	r, err := zip.OpenReader(src)
	if err != nil {
		return fmt.Errorf("reading the archive: %w", err)
	}
	defer r.Close()

	if len(r.File) > c.limits.UnpackedFiles {
		return c.tooMany()
	}

	// The table may lie about the sizes: go-getter counts the bytes again.
	left := c.limits.UnpackedSize.Bytes
	for _, f := range r.File {
		if err := checkEntry(f.Name, f.Mode()); err != nil {
			return err
		}

		if f.UncompressedSize64 > uint64(left) {
			return c.tooLarge()
		}

		left -= int64(f.UncompressedSize64)
	}

	return nil
}

// checkTar reads the headers of all entries. A tar file has no table, so this decompresses all of it.
func (c *checked) checkTar(r *tar.Reader) error {
	left := c.limits.UnpackedSize.Bytes
	for n := 0; ; n++ {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the archive: %w", err)
		}

		if n >= c.limits.UnpackedFiles {
			return c.tooMany()
		}

		// git archive writes such a header, which is no file.
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}

		mode := h.FileInfo().Mode()
		if h.Typeflag == tar.TypeLink {
			mode |= fs.ModeSymlink // a hard link has the mode of a file
		}

		if err := checkEntry(h.Name, mode); err != nil {
			return err
		}

		left -= h.Size
		if left < 0 {
			return c.tooLarge()
		}
	}
}

// checkEntry rejects links and devices.
func checkEntry(name string, mode fs.FileMode) error {
	if mode.IsRegular() || mode.IsDir() {
		return nil
	}
	return fmt.Errorf("the archive has %q, which is neither a file nor a directory; links and devices are not unpacked", name)
}
