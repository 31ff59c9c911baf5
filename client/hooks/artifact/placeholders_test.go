package artifact

import (
	"strings"
	"testing"

	"berth/structs"
	"berth/test/jobtext"
)

func TestExpand_ReplacesPlaceholders(t *testing.T) {
	spec := jobtext.Fill(&structs.TaskArtifact{})
	got := expandSpec(spec, func(s string) string {
		return strings.ReplaceAll(s, jobtext.Placeholder, jobtext.Value)
	})
	jobtext.Check(t, "client/hooks/artifact", jobtext.Replaced(got))
}
