package backup

import (
	"path/filepath"
	"time"

	"filippo.io/age"

	"berth/internal/agefile"
	"berth/structs"
)

// Settings are the block snapshot_agent of a server. Without Every no archive is saved.
type Settings struct {
	Every          time.Duration `hcl:"every"`           // the time between two archives
	Directory      string        `hcl:"directory"`       // where the archives are, or
	Retain         int           `hcl:"retain"`          // the newest archives that stay in Directory
	Command        []string      `hcl:"command"`         // a program that reads an archive from its input
	Timeout        time.Duration `hcl:"timeout"`         // of one archive
	EncryptTo      []string      `hcl:"encrypt_to"`      // recipients of age
	RecipientsFile string        `hcl:"recipients_file"` // a file with recipients of age, one a line
}

// The bounds of the settings.
const (
	leastEvery    = time.Minute
	longestEvery  = 30 * 24 * time.Hour
	mostRetained  = 10_000
	leastTimeout  = time.Second
	longestWait   = 24 * time.Hour
	mostArguments = 64
	mostEncryptTo = 64
)

// DefaultSettings returns the settings of a server without the block.
func DefaultSettings() Settings {
	return Settings{
		Retain:  24,
		Timeout: time.Hour,
	}
}

// Validate returns the first fault of the settings. It reads the recipients.
func (s *Settings) Validate() error {
	const block = "server.snapshot_agent."
	toDirectory := s.Directory != ""
	toCommand := len(s.Command) > 0
	switch {
	case s.Every == 0 && (toDirectory || toCommand):
		return structs.Invalidf(block + "every is required, such as \"1h\"")
	case s.Every == 0:
		return nil
	case s.Every < leastEvery || s.Every > longestEvery:
		return structs.Invalidf(block+"every is %s; expected %s to %s", s.Every, leastEvery, longestEvery)
	case toDirectory == toCommand:
		return structs.Invalidf(block + "directory or command is required, one of them")
	case toDirectory && !filepath.IsAbs(s.Directory):
		return structs.Invalidf(block+"directory is %q; expected an absolute path", s.Directory)
	case toCommand && !filepath.IsAbs(s.Command[0]):
		return structs.Invalidf(block+"command is %q; expected an absolute path", s.Command[0])
	case len(s.Command) > mostArguments:
		return structs.Invalidf(block+"command has %d words; expected at most %d", len(s.Command), mostArguments)
	case s.Retain < 1 || s.Retain > mostRetained:
		return structs.Invalidf(block+"retain is %d; expected 1 to %d", s.Retain, mostRetained)
	case s.Timeout < leastTimeout || s.Timeout > longestWait:
		return structs.Invalidf(block+"timeout is %s; expected %s to %s", s.Timeout, leastTimeout, longestWait)
	case len(s.EncryptTo) > mostEncryptTo:
		return structs.Invalidf(block+"encrypt_to has %d recipients; expected at most %d", len(s.EncryptTo),
			mostEncryptTo)
	}
	_, err := s.recipients()
	return err
}

// recipients returns those to whom an archive is encrypted, none for a plain one.
func (s *Settings) recipients() (to []age.Recipient, err error) {
	if s.RecipientsFile != "" {
		to, err = agefile.Recipients(s.RecipientsFile)
		if err != nil {
			return nil, structs.Invalidf("server.snapshot_agent.recipients_file: %w", err)
		}
	}
	for _, text := range s.EncryptTo {
		r, err := agefile.Recipient("server.snapshot_agent.encrypt_to", text)
		if err != nil {
			return nil, err
		}
		to = append(to, r)
	}
	return to, nil
}
