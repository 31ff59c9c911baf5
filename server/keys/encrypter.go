package keys

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"berth/internal/keyring"
	"berth/internal/process"
	"berth/structs"
)

// encrypter is a key-encryption key: it wraps and unwraps root keys.
type encrypter interface {
	ID() string // the fingerprint, which is the same on all servers
	Wrap(ctx context.Context, rootKeyID string, key []byte) ([]byte, error)
	Unwrap(ctx context.Context, rootKeyID string, wrapped []byte) ([]byte, error)
}

// fileKey is the key of a file.
type fileKey struct{ *keyring.FileKey }

func (k fileKey) Wrap(_ context.Context, id string, key []byte) ([]byte, error) {
	return k.FileKey.Wrap(id, key)
}

func (k fileKey) Unwrap(_ context.Context, id string, wrapped []byte) ([]byte, error) {
	return k.FileKey.Unwrap(id, wrapped)
}

// command is a key that a program of the operator uses, for example in the KMS of a cloud. The program reads
// one request as a line of JSON from its standard input, and writes one answer to its standard output. It
// succeeds with the exit code 0. Neither its arguments nor its environment have a key.
type command struct {
	argv    []string
	keyID   string // the key in the key management system
	timeout time.Duration
}

// The bounds of a run of the program.
const (
	commandTimeout = 20 * time.Second
	maxAnswer      = 32 << 10 // bytes of its standard output
	maxComplaint   = 1 << 10  // bytes of its standard error that an error shows
)

// commandRequest is the line that the program reads. Data is in base64.
type commandRequest struct {
	Action string `json:"action"` // wrap or unwrap
	KeyID  string `json:"key_id"` // the setting key_id
	Data   []byte `json:"data"`
}

// commandAnswer is what the program writes.
type commandAnswer struct {
	Data []byte `json:"data"`
}

// ID returns the fingerprint of the name of the key. The program may have another path on each server.
func (c *command) ID() string { return keyring.Fingerprint("command", []byte(c.keyID)) }

func (c *command) Wrap(ctx context.Context, _ string, key []byte) ([]byte, error) {
	return c.run(ctx, "wrap", key)
}

func (c *command) Unwrap(ctx context.Context, _ string, wrapped []byte) ([]byte, error) {
	return c.run(ctx, "unwrap", wrapped)
}

// run runs the program once. The processes that it has started end with it.
func (c *command) run(ctx context.Context, action string, data []byte) ([]byte, error) {
	request, err := json.Marshal(commandRequest{Action: action, KeyID: c.keyID, Data: data})
	if err != nil {
		return nil, err
	}

	late := fmt.Errorf("it did not end within %s", c.timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, late)
	defer cancel()
	out := process.Output{Most: maxAnswer}
	complaint := process.Output{Most: maxComplaint}

	// The program has the environment of the server, where credentials of a cloud may be.
	cmd := process.NewCommand(ctx, c.argv)
	cmd.Stdin = bytes.NewReader(append(request, '\n'))
	cmd.Stdout = &out
	cmd.Stderr = &complaint
	err = cmd.Run()
	switch {
	case ctx.Err() != nil:
		// The cause says that the time was over. The error of the program would only say that it was killed.
		err = context.Cause(ctx)
	case err != nil:
		err = fmt.Errorf("%w: %s", err, structs.Cut(string(complaint.Kept), maxComplaint))
	case out.More:
		err = fmt.Errorf("it wrote more than %d bytes", maxAnswer)
	}

	if err != nil {
		return nil, fmt.Errorf("program %s, action %s: %w", c.argv[0], action, err)
	}

	var answer commandAnswer

	// The error of the decoder is left out: it may show a part of the key.
	if json.Unmarshal(out.Kept, &answer) != nil || len(answer.Data) == 0 {
		err := errors.New(`it did not write {"data": "..."} with base64`)
		return nil, fmt.Errorf("program %s, action %s: %w", c.argv[0], action, err)
	}

	return answer.Data, nil
}
