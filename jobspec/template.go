package jobspec

import (
	"time"

	"berth/structs"
)

// The blocks of templates. structs.Template has the fields in another order, so they are copied one by one.
type templateBlock struct {
	SourcePath    string         `hcl:"source"`
	DestPath      string         `hcl:"destination,required"`
	EmbeddedTmpl  string         `hcl:"data"`
	ChangeMode    string         `hcl:"change_mode"`
	ChangeSignal  string         `hcl:"change_signal"`
	ChangeScript  *changeScript  `hcl:"change_script,block"`
	Splay         *time.Duration `hcl:"splay"`
	Perms         string         `hcl:"perms"`
	Uid           *int           `hcl:"uid"`
	Gid           *int           `hcl:"gid"`
	LeftDelim     string         `hcl:"left_delimiter"`
	RightDelim    string         `hcl:"right_delimiter"`
	Envvars       bool           `hcl:"env"`
	ErrMissingKey bool           `hcl:"error_on_missing_key"`
	Wait          *templateWait  `hcl:"wait,block"`
}

type templateWait struct {
	Min *time.Duration `hcl:"min"`
	Max *time.Duration `hcl:"max"`
}

type changeScript struct {
	Command     string        `hcl:"command,required"`
	Args        []string      `hcl:"args"`
	Timeout     time.Duration `hcl:"timeout"`
	FailOnError bool          `hcl:"fail_on_error"`
}

func (t *templateBlock) template() *structs.Template {
	return &structs.Template{
		SourcePath:    t.SourcePath,
		DestPath:      t.DestPath,
		EmbeddedTmpl:  t.EmbeddedTmpl,
		ChangeMode:    t.ChangeMode,
		ChangeSignal:  t.ChangeSignal,
		ChangeScript:  (*structs.ChangeScript)(t.ChangeScript),
		Splay:         t.Splay,
		Perms:         t.Perms,
		Uid:           t.Uid,
		Gid:           t.Gid,
		LeftDelim:     t.LeftDelim,
		RightDelim:    t.RightDelim,
		Envvars:       t.Envvars,
		ErrMissingKey: t.ErrMissingKey,
		Wait:          (*structs.TemplateWait)(t.Wait),
	}
}
