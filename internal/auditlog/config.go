package auditlog

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/internal/conf"
	"berth/structs"
	"berth/structs/validate/field"
)

// The types and guarantees of sinks. Those of the dialect are TypeFile, Enforced and BestEffort.
const (
	TypeFile   = "file"
	TypeStdout = "stdout"
	TypeSyslog = "syslog"

	Enforced   = "enforced"
	BestEffort = "best-effort"
)

// The defaults of a sink, and the bounds of the block.
const (
	defaultMode   = "0600"
	defaultRotate = 24 * time.Hour

	maxSinks       = 8
	maxFilters     = 64
	maxPatterns    = 64
	maxPath        = 1024
	maxFiles       = 100_000
	minRotateBytes = MaxLine
	minRotateTime  = time.Second
	maxRotateTime  = 10 * 365 * 24 * time.Hour
)

// Config is the audit block of an agent.
type Config struct {
	Enabled bool `hcl:"enabled"`
	// Sinks without an element are one file in the data directory.
	Sinks   []*Sink   `hcl:"sink,block"`
	Filters []*Filter `hcl:"filter,block"`
}

// Sink is a place for the lines.
type Sink struct {
	Name              string `hcl:",label"`
	Type              string `hcl:"type"`
	DeliveryGuarantee string `hcl:"delivery_guarantee"`
	Format            string `hcl:"format"`
	// The settings below are for a file. Other sinks have none of them.
	Path           string        `hcl:"path"`
	Mode           string        `hcl:"mode"` // in octal
	RotateBytes    conf.ByteSize `hcl:"rotate_bytes"`
	RotateDuration time.Duration `hcl:"rotate_duration"`
	RotateMaxFiles int           `hcl:"rotate_max_files"` // renamed files; 0 keeps all
}

// Filter leaves events out. It takes events that fit each of its lists; an empty list fits all. Forced
// actions are never left out.
type Filter struct {
	Name       string   `hcl:",label"`
	Type       string   `hcl:"type"`
	Endpoints  []string `hcl:"endpoints"`  // paths, with * for any text
	Stages     []string `hcl:"stages"`     // Received, Complete or *
	Operations []string `hcl:"operations"` // methods of HTTP, or remote procedures, or *
}

// Finish sets the defaults. dataDir is the agent's.
func (c *Config) Finish(dataDir string) {
	if c.Enabled && len(c.Sinks) == 0 {
		c.Sinks = []*Sink{{Name: "audit", Type: TypeFile}}
	}

	for _, s := range c.Sinks {
		setDefault(&s.DeliveryGuarantee, Enforced)
		setDefault(&s.Format, "json")
		if s.Type != TypeFile {
			continue
		}
		setDefault(&s.Path, filepath.Join(dataDir, "audit", "audit.log"))
		setDefault(&s.Mode, defaultMode)
		if s.RotateDuration == 0 {
			s.RotateDuration = defaultRotate
		}
	}
	for _, f := range c.Filters {
		setDefault(&f.Type, httpEvent)
	}
}

func setDefault(setting *string, value string) {
	if *setting == "" {
		*setting = value
	}
}

// Validate returns all faults of the block after Finish.
func (c *Config) Validate() error {
	f := field.New("audit")
	f.AtMost("sinks", len(c.Sinks), maxSinks)
	f.AtMost("filters", len(c.Filters), maxFilters)
	names := map[string]bool{}
	paths := map[string]bool{}
	for _, s := range c.Sinks {
		f.Require(!names[s.Name], "sink %q is there twice", shown(s.Name))
		names[s.Name] = true
		f.Require(s.Path == "" || !paths[s.Path],
			"sink %q: the file %q has another sink", shown(s.Name), shown(s.Path))
		paths[s.Path] = true
		s.check(f)
	}
	for _, filter := range c.Filters {
		filter.check(f)
	}
	return f.Err()
}

func (s *Sink) check(f field.Errors) {
	require := func(ok bool, format string, args ...any) {
		f.Require(ok, "sink %q: "+format, append([]any{shown(s.Name)}, args...)...)
	}
	types := []string{TypeFile, TypeStdout, TypeSyslog}
	require(isName(s.Name), nameRule)
	require(slices.Contains(types, s.Type), "type is %q; expected %s", shown(s.Type), field.OneOf(types))
	require(s.DeliveryGuarantee == Enforced || s.DeliveryGuarantee == BestEffort,
		"delivery_guarantee is %q; expected %s or %s", shown(s.DeliveryGuarantee), Enforced, BestEffort)
	require(s.Format == "json", "format is %q; expected json, the only one", shown(s.Format))
	if s.Type != TypeFile {
		named := *s
		bare := Sink{Name: s.Name, Type: s.Type, DeliveryGuarantee: s.DeliveryGuarantee, Format: s.Format}
		require(named == bare, "path, mode and rotate_* are those of a file; leave them out")
		return
	}

	isFile := filepath.IsAbs(s.Path) && len(s.Path) <= maxPath && !strings.HasSuffix(s.Path, "/")
	require(isFile,
		"path is %q; expected the absolute path of a file, of at most %d bytes", shown(s.Path), maxPath)
	_, err := s.fileMode()
	require(err == nil, "mode is %q; expected one such as 0600, by which the owner alone writes", shown(s.Mode))
	require(s.RotateBytes == 0 || s.RotateBytes >= minRotateBytes,
		"rotate_bytes is %d; expected at least %d", int64(s.RotateBytes), minRotateBytes)
	require(s.RotateDuration >= minRotateTime && s.RotateDuration <= maxRotateTime,
		"rotate_duration is %s; expected %s to %s", s.RotateDuration, minRotateTime, maxRotateTime)
	require(s.RotateMaxFiles >= 0 && s.RotateMaxFiles <= maxFiles,
		"rotate_max_files is %d; expected 0 to %d", s.RotateMaxFiles, maxFiles)
}

// fileMode returns the mode of the file. Others than the owner must not write to it.
func (s *Sink) fileMode() (os.FileMode, error) {
	n, err := strconv.ParseUint(s.Mode, 8, 32)
	if err != nil || n&0o600 != 0o600 || n&^0o644 != 0 {
		return 0, structs.Invalidf("mode is %q", shown(s.Mode))
	}
	return os.FileMode(n), nil
}

// nameRule says which names isName accepts.
const nameRule = "expected a name of at most 64 letters, digits, - and _"

func isName(s string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		isLetter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		return !isLetter && (r < '0' || r > '9') && r != '-' && r != '_'
	})
}

func shown(s string) string { return structs.Cut(s, structs.MaxQuoted) }
