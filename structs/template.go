package structs

import (
	"io/fs"
	"strconv"
	"time"
)

// Template is a task's `template {}`: a text that the node renders into a file before the task starts, and
// again when a value changes that the text has read.
type Template struct {
	SourcePath    string         `json:",omitempty" codec:",omitempty"` // of the text, or EmbeddedTmpl
	DestPath      string         `json:",omitempty" codec:",omitempty"`
	EmbeddedTmpl  string         `json:",omitempty" codec:",omitempty"` // data
	ChangeMode    string         `json:",omitempty" codec:",omitempty"` // default restart
	ChangeSignal  string         `json:",omitempty" codec:",omitempty"`
	ChangeScript  *ChangeScript  `json:",omitempty" codec:",omitempty"`
	Splay         *time.Duration `json:",omitempty" codec:",omitempty"` // a random part delays a change
	Perms         string         `json:",omitempty" codec:",omitempty"` // octal
	Uid           *int           `json:",omitempty" codec:",omitempty"` // -1 and nil: of the agent
	Gid           *int           `json:",omitempty" codec:",omitempty"`
	LeftDelim     string         `json:",omitempty" codec:",omitempty"`
	RightDelim    string         `json:",omitempty" codec:",omitempty"`
	Envvars       bool           `json:",omitempty" codec:",omitempty"` // the file has variables
	ErrMissingKey bool           `json:",omitempty" codec:",omitempty"` // a missing key of a map is an error
	Wait          *TemplateWait  `json:",omitempty" codec:",omitempty"`
}

// TemplateWait delays another rendering while the answers of Consul and of the servers keep changing: until
// they stay the same for Min, and at most for Max.
type TemplateWait struct {
	Min *time.Duration `json:",omitempty" codec:",omitempty"` // nil: 0
	Max *time.Duration `json:",omitempty" codec:",omitempty"` // nil: four times Min, at most MaxTaskWait
}

// ChangeScript is the command of change_mode script. It runs in the task.
type ChangeScript struct {
	Command     string        `json:",omitempty" codec:",omitempty"`
	Args        []string      `json:",omitempty" codec:",omitempty"`
	Timeout     time.Duration `json:",omitempty" codec:",omitempty"`
	FailOnError bool          `json:",omitempty" codec:",omitempty"` // its failure fails the task
}

// The values of Template.ChangeMode.
const (
	TemplateNoop    = "noop"
	TemplateRestart = "restart"
	TemplateSignal  = "signal"
	TemplateScript  = "script"
)

// The defaults of a template.
const (
	DefaultTemplateSignal  = "SIGHUP"
	DefaultTemplateSplay   = 5 * time.Second
	DefaultTemplatePerms   = "0644"
	DefaultTemplateTimeout = 5 * time.Second // of its script
	DefaultLeftDelim       = "{{"
	DefaultRightDelim      = "}}"

	// Those of a template without a wait.
	DefaultTemplateShortestWait = 5 * time.Second
	DefaultTemplateLongestWait  = 4 * time.Minute
)

// WaitBounds returns the bounds of the wait.
func (t *Template) WaitBounds() (least, most time.Duration) {
	if t.Wait == nil {
		return DefaultTemplateShortestWait, DefaultTemplateLongestWait
	}
	if t.Wait.Min != nil {
		least = *t.Wait.Min
	}
	if t.Wait.Max != nil {
		return least, *t.Wait.Max
	}
	return least, 4 * min(least, MaxTaskWait/4)
}

// Mode returns the permissions of the file.
func (t *Template) Mode() (fs.FileMode, error) {
	n, err := strconv.ParseUint(t.Perms, 8, 9)
	return fs.FileMode(n), err
}
