package api

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"berth/structs"
)

func TestReceive_VerifiesTheDigestOfTheSender(t *testing.T) {
	spool, err := SpoolArchive(func(w io.Writer) error {
		_, err := io.WriteString(w, "an archive")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer spool.Close()
	var sent, received bytes.Buffer
	_, err = spool.WriteTo(&sent)
	if err != nil || int64(sent.Len()) != spool.Size {
		t.Fatalf("%d bytes of %d: %v", sent.Len(), spool.Size, err)
	}

	err = ReceiveArchive(&received, bytes.NewReader(sent.Bytes()), spool.Digest)
	if err != nil || received.String() != "an archive" {
		t.Errorf("got %q, %v", received.String(), err)
	}
	err = ReceiveArchive(io.Discard, bytes.NewReader(sent.Bytes()[1:]), spool.Digest)
	if !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("a damaged archive: %v", err)
	}
}

func TestWrite_ReturnsTheErrorOfTheSave(t *testing.T) {
	fault := errors.New("no leader")
	_, err := SpoolArchive(func(io.Writer) error { return fault })
	if err != fault {
		t.Errorf("got %v", err)
	}
}
