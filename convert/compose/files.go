package compose

import (
	"cmp"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"

	"berth/structs"
)

// files lets templates write the secrets and the configs of a task, and mounts them where the image looks.
func (c *converter) files(place string, t *structs.Task, s *types.ServiceConfig) {
	for _, ref := range s.Secrets {
		target := ref.Target
		if !path.IsAbs(target) {
			target = path.Join("/run/secrets", cmp.Or(target, ref.Source))
		}
		item := structs.VariableName(ref.Source)
		c.items[item] = true
		c.file(t, "secrets/"+item, target, &structs.Template{
			EmbeddedTmpl: fmt.Sprintf("{{ with nomadVar %q }}{{ .%s }}{{ end }}", c.variable(), item),
			Perms:        permissions(ref.Mode),
		})
	}

	for _, ref := range s.Configs {
		target := ref.Target
		if target == "" {
			target = "/" + ref.Source
		}
		def := c.project.Configs[ref.Source]
		if def.Content == "" {
			c.lost(place, "the config "+ref.Source+" at "+target, "write a template with its text: data = file(PATH)")
			continue
		}
		x := &structs.Template{EmbeddedTmpl: def.Content, Perms: permissions(ref.Mode)}
		if strings.Contains(def.Content, structs.DefaultLeftDelim) {
			x.LeftDelim = "[[berth"
			x.RightDelim = "berth]]"
		}
		c.file(t, "local/"+structs.VariableName(ref.Source), target, x)
	}
}

// file adds a template whose file is mounted at a path in the container.
func (c *converter) file(t *structs.Task, name, target string, x *structs.Template) {
	x.DestPath = name
	t.Templates = append(t.Templates, x)
	addMount(t, map[string]any{"type": "bind", "source": name, "target": target, "readonly": true})
}

// permissions returns a mode in octal, "" for the default.
func permissions(mode *types.FileMode) string {
	if mode == nil {
		return ""
	}
	return "0" + strconv.FormatInt(int64(*mode)&0o777, 8)
}
