package api

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"hash"
	"io"
	"os"

	"berth/structs"
)

// This file has the two ends of a transfer of an archive of the state over HTTP. The digest of an archive is
// in a header, so its sender needs the whole archive first.

// archiveSpool has an archive in a temporary file without a name, which ends with the process.
type archiveSpool struct {
	Size   int64  // bytes
	Digest string // the value of the header Digest
	file   *os.File
}

// spoolArchive keeps the archive that save writes. An error of save is returned as it is.
func SpoolArchive(save func(io.Writer) error) (_ *archiveSpool, err error) {
	file, err := os.CreateTemp("", "berth-snapshot-*")
	if err != nil {
		return nil, spoolFault(err)
	}
	s := &archiveSpool{file: file}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()

	err = os.Remove(file.Name())
	if err != nil {
		return nil, spoolFault(err)
	}
	sum := sha256.New()
	err = save(io.MultiWriter(file, sum))
	if err != nil {
		return nil, err
	}
	s.Digest = digestValue(sum)
	s.Size, err = file.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil, spoolFault(err)
	}
	return s, nil
}

func spoolFault(err error) error { return fmt.Errorf("spooling the snapshot: %w", err) }

// WriteTo writes the archive to w.
func (s *archiveSpool) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, io.NewSectionReader(s.file, 0, s.Size))
}

// Close deletes the archive.
func (s *archiveSpool) Close() { _ = s.file.Close() } // nothing reads it any more

func digestValue(sum hash.Hash) string {
	return "sha-256=" + base64.StdEncoding.EncodeToString(sum.Sum(nil))
}

// receiveArchive copies an archive to w and verifies its digest, a value of the header Digest. The error is
// unavailable, and the content of w is then useless.
func ReceiveArchive(w io.Writer, archive io.Reader, digest string) error {
	sum := sha256.New()
	_, err := io.Copy(io.MultiWriter(w, sum), archive)
	if err != nil {
		return structs.Unavailablef("the snapshot is incomplete: %w", err)
	}
	if digest != digestValue(sum) {
		return structs.Unavailablef("the snapshot was damaged on its way: its digest is not %q", digest)
	}
	return nil
}
