package keys

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"berth/internal/keyring"
	"berth/structs"
)

// Settings say where a server finds the key-encryption key. The configuration of a server has it as its block
// keyring. Its zero value stands for none.
type Settings struct {
	File string `hcl:"file"` // with the key: see keyring.FileKey
	// Command is a program, with its arguments, that wraps and unwraps (see command.go). KeyID names the key in
	// its key management system.
	Command []string `hcl:"command"`
	KeyID   string   `hcl:"key_id"`
}

// maxKeyID and maxArgs bound the settings of a command.
const (
	maxKeyID = 512
	maxArgs  = 64
)

// CheckPlace returns an error if the file is in the data directory of the agent.
func (s *Settings) CheckPlace(dataDir string) error {
	if s.File == "" || !within(s.File, dataDir) {
		return nil
	}
	return fmt.Errorf("server.keyring: file %s is in the data directory %s; expected a place outside of it: "+
		"who copies the directory would have the secrets with their key", s.File, dataDir)
}

// Validate joins the faults of the settings.
func (s *Settings) Validate() error {
	var faults []error
	bad := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("server.keyring: "+format, args...))
	}

	if s.File != "" && len(s.Command) > 0 {
		bad("file and command are both set; expected one of them")
	}
	if s.File != "" && !filepath.IsAbs(s.File) {
		bad("file is %q; expected an absolute path", s.File)
	}

	if len(s.Command) > 0 && !filepath.IsAbs(s.Command[0]) {
		bad("command begins with %q; expected the absolute path of a program", s.Command[0])
	}
	if len(s.Command) > maxArgs {
		bad("command has %d parts; expected at most %d", len(s.Command), maxArgs)
	}
	if (len(s.Command) > 0) != (s.KeyID != "") {
		bad("command and key_id belong together: key_id names the key that the command uses")
	}
	if len(s.KeyID) > maxKeyID {
		bad("key_id has %d bytes; expected at most %d", len(s.KeyID), maxKeyID)
	}
	return errors.Join(faults...)
}

// within reports whether a file is below a directory, also by way of a symbolic link.
func within(file, dir string) bool {
	if dir == "" {
		return false
	}
	paths := []string{filepath.Clean(file)}
	if real, err := filepath.EvalSymlinks(file); err == nil {
		paths = append(paths, real)
	}
	if real, err := filepath.EvalSymlinks(filepath.Dir(file)); err == nil {
		paths = append(paths, filepath.Join(real, filepath.Base(file)))
	}
	dirs := []string{filepath.Clean(dir)}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dirs = append(dirs, real)
	}
	for _, d := range dirs {
		for _, p := range paths {
			if strings.HasPrefix(p, strings.TrimSuffix(d, "/")+"/") {
				return true
			}
		}
	}
	return false
}

// FileText returns the content of the file, for a server that joins. It is "" if the settings name no file: a
// program that wraps is set up on each server.
func (s *Settings) FileText() (structs.Secret, error) {
	if s.File == "" {
		return "", nil
	}
	k, err := keyring.ReadFile(s.File)
	if err != nil {
		return "", structs.Preconditionf("server.keyring: %w", err)
	}
	return structs.Secret(k.Text()), nil
}

// open returns the key-encryption key, or nil if none is set. It reads the file anew.
func (s *Settings) open() (encrypter, error) {
	switch {
	case s.File != "":
		k, err := keyring.ReadFile(s.File)
		if err != nil {
			return nil, fmt.Errorf("reading the key-encryption key of %s: %w", s.File, err)
		}
		return fileKey{k}, nil
	case len(s.Command) > 0:
		return &command{argv: s.Command, keyID: s.KeyID, timeout: commandTimeout}, nil
	}
	return nil, nil
}

// String names the source of the key.
func (s *Settings) String() string {
	switch {
	case s.File != "":
		return "file " + s.File
	case len(s.Command) > 0:
		return "command " + s.Command[0]
	}
	return "none"
}
