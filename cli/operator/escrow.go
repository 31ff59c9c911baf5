package operator

import (
	"bytes"
	"errors"
	"io"
	"os"

	"filippo.io/age"
	"filippo.io/age/armor"

	"berth/internal/agefile"
	"berth/structs"
)

// writeEscrow writes a text, encrypted for a recipient of age, to a file that must not exist.
func writeEscrow(path, recipient string, text []byte) error {
	to, err := agefile.Recipient("-escrow-to", recipient)
	if err != nil {
		return err
	}

	var out bytes.Buffer
	lines := armor.NewWriter(&out)
	w, err := age.Encrypt(lines, to)
	if err == nil {
		_, err = io.Copy(w, bytes.NewReader(text))
		err = errors.Join(err, w.Close(), lines.Close())
	}
	if err != nil {
		return structs.Internalf("encrypting the copy of the key: %w", err)
	}

	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return structs.Invalidf("-escrow-out: %w", err)
	}
	_, err = f.Write(out.Bytes())
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return structs.Internalf("writing the copy of the key: %w", err)
	}
	return nil
}
