package certificate

import (
	"bytes"
	"errors"
	"io"
	"os"

	"filippo.io/age"
	"filippo.io/age/armor"

	"berth/cli/command"
	"berth/internal/agefile"
	"berth/structs"
)

// KeyCopyFlags are the options of a command that makes the key-encryption key.
var KeyCopyFlags = []command.Flag{
	{Name: "key-saved", Usage: "I keep a copy of the key-encryption key in a safe place"},
	{
		Name:  "escrow-to",
		Kind:  command.String,
		Value: "recipient",
		Usage: "Encrypt a copy for this recipient of age (age1...)",
	},
	{Name: "escrow-out", Kind: command.String, Value: "file", Usage: "The file of the encrypted copy"},
}

// KeyCopy is the copy of a new key-encryption key. Without a file the operator keeps one.
type KeyCopy struct {
	File string
	to   age.Recipient
}

// KeyCopyOf returns the copy of the options. The error is invalid if they name none: a key without a copy is
// lost with the servers.
func KeyCopyOf(c *command.Call) (k KeyCopy, err error) {
	k.File = c.String("escrow-out")
	recipient := c.String("escrow-to")
	switch {
	case (recipient == "") != (k.File == ""):
		return k, structs.Invalidf("-escrow-to and -escrow-out belong together: a recipient of age, and the file of the copy for it")
	case recipient == "" && !c.Bool("key-saved"):
		return k, structs.Invalidf("expected -key-saved or -escrow-to: without a copy of the key-encryption key, " +
			"the secrets of the cluster are lost with its servers. Give -key-saved if you will keep a copy of the " +
			"file in a safe place, or have an encrypted copy written with -escrow-to and -escrow-out")
	case recipient != "":
		k.to, err = agefile.Recipient("-escrow-to", recipient)
	}

	return k, err
}

// Write writes the key, encrypted for the recipient, to a file that must not exist. It does nothing without a
// recipient.
func (k KeyCopy) Write(text []byte) error {
	if k.to == nil {
		return nil
	}

	var out bytes.Buffer
	lines := armor.NewWriter(&out)
	w, err := age.Encrypt(lines, k.to)
	if err == nil {
		_, err = io.Copy(w, bytes.NewReader(text))
		err = errors.Join(err, w.Close(), lines.Close())
	}
	if err != nil {
		return structs.Internalf("encrypting the copy of the key: %w", err)
	}

	f, err := os.OpenFile(k.File, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
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

// Print says where the encrypted copy is.
func (k KeyCopy) Print(c *command.Call) {
	if k.to != nil {
		c.Printf("Wrote %s, its copy. Who has the identity of the recipient reads it: age -d -i IDENTITY %s\n",
			k.File, k.File)
	}
}
