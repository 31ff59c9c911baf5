package jobspec

import (
	"cmp"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"berth/internal/conf"
	"berth/structs"
	"berth/structs/storage"
)

// hostVolumeFile is the body of the file of a dynamic host volume.
type hostVolumeFile struct {
	Type         string            `hcl:"type,required"`
	ID           string            `hcl:"id"`
	Namespace    string            `hcl:"namespace"`
	Name         string            `hcl:"name,required"`
	PluginID     string            `hcl:"plugin_id"`
	NodePool     string            `hcl:"node_pool"`
	NodeID       string            `hcl:"node_id"`
	CapacityMin  byteSize          `hcl:"capacity_min"`
	CapacityMax  byteSize          `hcl:"capacity_max"`
	Capabilities []*capability     `hcl:"capability,block"`
	Constraints  []*nodeConstraint `hcl:"constraint,block"`
	Parameters   map[string]string `hcl:"parameters"`
}

type nodeConstraint struct {
	Attribute hcl.Expression `hcl:"attribute,required"`
	Operator  string         `hcl:"operator"`
	Value     string         `hcl:"value"`
}

// placeholderText returns the text of an argument. A server resolves a placeholder such as ${attr.os.name}
// in it, so it stays as it is written.
func placeholderText(e hcl.Expression) string {
	if e == nil {
		return ""
	}
	wrap, isWrap := e.(*hclsyntax.TemplateWrapExpr)
	if isWrap && len(wrap.Variables()) == 1 {
		var names []string
		for _, step := range wrap.Variables()[0] {
			switch s := step.(type) {
			case hcl.TraverseRoot:
				names = append(names, s.Name)
			case hcl.TraverseAttr:
				names = append(names, s.Name)
			default: // no attribute of a node has an index
				return ""
			}
		}
		return "${" + strings.Join(names, ".") + "}"
	}

	value, diags := e.Value(nil)
	if diags.HasErrors() || value.IsNull() || value.Type() != cty.String {
		return "" // which the check of the volume rejects
	}
	return value.AsString()
}

// IsHostVolume reports whether a volume file has type = "host". It reports false for a file with faults of
// the syntax, which ReadVolume tells.
func IsHostVolume(filename string, src []byte) bool {
	body, diags := conf.Parse(filename, src)
	if diags.HasErrors() {
		return false
	}
	schema := &hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "type"}}}
	content, _, _ := body.PartialContent(schema)
	if content == nil || content.Attributes["type"] == nil {
		return false
	}
	value, diags := content.Attributes["type"].Expr.Value(nil)
	return !diags.HasErrors() && value.RawEquals(cty.StringVal(structs.VolumeTypeHost))
}

// ReadHostVolume reads the file of a dynamic host volume. Its results are like ReadVolume's.
func ReadHostVolume(filename string, src []byte) (*File[*storage.DynamicHostVolume], error) {
	return readFile(filename, src, "volume", (*hostVolumeFile).row)
}

func (f *hostVolumeFile) row() *storage.DynamicHostVolume {
	v := &storage.DynamicHostVolume{
		ID:                        f.ID,
		Namespace:                 f.Namespace,
		Name:                      f.Name,
		PluginID:                  f.PluginID,
		NodePool:                  f.NodePool,
		NodeID:                    f.NodeID,
		RequestedCapacityMinBytes: int64(f.CapacityMin),
		RequestedCapacityMaxBytes: int64(f.CapacityMax),
		Parameters:                f.Parameters,
	}
	for _, c := range f.Capabilities {
		v.RequestedCapabilities = append(v.RequestedCapabilities, (*structs.CSIVolumeCapability)(c))
	}
	for _, c := range f.Constraints {
		v.Constraints = append(v.Constraints, &structs.Constraint{
			LTarget: placeholderText(c.Attribute),
			RTarget: c.Value,
			Operand: cmp.Or(c.Operator, "="),
		})
	}
	return v
}
