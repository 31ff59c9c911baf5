package keys

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"berth/internal/keyring"
	"berth/server/keys/transit"
	"berth/structs"
)

// Source says where a server finds a key-encryption key. Its zero value stands for none.
type Source struct {
	File string `hcl:"file"` // with the key: see keyring.FileKey
	// Command is a program, with its arguments, that wraps and unwraps (see command.go). KeyID names the key
	// in its key management system.
	Command []string `hcl:"command"`
	KeyID   string   `hcl:"key_id"`
	// Transit is a key of Vault or OpenBao.
	Transit *transit.Settings `hcl:"transit,block"`
}

// Settings are the sources of a server. Its configuration has them as its block keyring.
type Settings struct {
	Source // of the key that wraps root keys

	// Previous only opens root keys. The leader wraps them with the key of Source once all servers have it.
	Previous *Source `hcl:"previous,block"`
}

// maxKeyID and maxArgs bound the settings of a command.
const (
	maxKeyID = 512
	maxArgs  = 64
)

// CheckPlace returns an error if a file is in the data directory of the agent.
func (s *Settings) CheckPlace(dataDir string) error {
	err := s.Source.checkPlace("server.keyring", dataDir)
	if s.Previous != nil {
		err = errors.Join(err, s.Previous.checkPlace("server.keyring.previous", dataDir))
	}
	return err
}

func (s *Source) checkPlace(block, dataDir string) error {
	if s.File == "" || !within(s.File, dataDir) {
		return nil
	}
	return fmt.Errorf("%s: file %s is in the data directory %s; expected a place outside of it: "+
		"who copies the directory would have the secrets with their key", block, s.File, dataDir)
}

// Validate joins the faults of the settings.
func (s *Settings) Validate() error {
	faults := s.Source.faults("server.keyring")
	if s.Previous == nil {
		return errors.Join(faults...)
	}

	const previous = "server.keyring.previous"
	faults = append(faults, s.Previous.faults(previous)...)
	switch {
	case s.Previous.IsSet() && !s.Source.IsSet():
		faults = append(faults, fmt.Errorf("%s: server.keyring has no key that could follow it", previous))
	case !s.Previous.IsSet():
		faults = append(faults, fmt.Errorf("%s: it names no key; remove the block, or set what "+
			"server.keyring had before", previous))
	case s.Previous.String() == s.Source.String() && s.Previous.KeyID == s.KeyID:
		faults = append(faults, fmt.Errorf("%s: it names the key of server.keyring itself", previous))
	}

	return errors.Join(faults...)
}

// IsSet reports whether the source names a key.
func (s *Source) IsSet() bool { return s.String() != noSource }

// faults lists the faults of one source.
func (s *Source) faults(block string) (faults []error) {
	bad := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf(block+": "+format, args...))
	}

	// The key of two sources would be ambiguous: a server may read the one, and another server the other.
	sources := 0
	for _, set := range []bool{s.File != "", len(s.Command) > 0, s.Transit != nil} {
		if set {
			sources++
		}
	}

	if sources > 1 {
		bad("%d of file, command and transit are set; expected one of them", sources)
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

	if s.Transit != nil {
		for _, fault := range s.Transit.Faults() {
			bad("transit: %w", fault)
		}
	}

	return faults
}

// within reports whether a file is below a directory, also by way of a symbolic link.
func within(file, dir string) bool {
	if dir == "" {
		return false
	}

	// Each path counts as written, with its links resolved, and with the links of its directory resolved: the
	// file may not exist yet.
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
			// The slash keeps /data2 from being below /data.
			if strings.HasPrefix(p, strings.TrimSuffix(d, "/")+"/") {
				return true
			}
		}
	}

	return false
}

// FileText returns the content of the file, for a server that joins. It is "" if the settings name no file: a
// program that wraps is set up on each server.
func (s *Source) FileText() (structs.Secret, error) {
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
func (s *Source) open() (encrypter, error) {
	switch {
	case s.File != "":
		k, err := keyring.ReadFile(s.File)
		if err != nil {
			return nil, fmt.Errorf("reading the key-encryption key of %s: %w", s.File, err)
		}
		return fileKey{k}, nil
	case len(s.Command) > 0:
		return &command{argv: s.Command, keyID: s.KeyID, timeout: commandTimeout}, nil
	case s.Transit != nil:
		return transit.New(s.Transit), nil
	}
	return nil, nil
}

// noSource is the name of a source that is not set.
const noSource = "none"

// String names the source of the key.
func (s *Source) String() string {
	switch {
	case s.File != "":
		return "file " + s.File
	case len(s.Command) > 0:
		return "command " + s.Command[0]
	case s.Transit != nil:
		return s.Transit.String()
	}
	return noSource
}
