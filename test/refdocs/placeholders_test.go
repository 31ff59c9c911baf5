package refdocs

import (
	"fmt"
	"strings"
	"testing"

	"berth/test/jobtext"
)

// TestJobs_ListTheFieldsWithPlaceholders compares the two tables of docs/jobs.md with the list of fields.
func TestJobs_ListTheFieldsWithPlaceholders(t *testing.T) {
	var node, scheduler []string // rows
	rowOf := map[string]int{}
	for _, f := range jobtext.Taking() {
		rows := &node
		if f.By == jobtext.Scheduler {
			rows = &scheduler
		}
		i, known := rowOf[f.Block]
		if !known {
			rowOf[f.Block] = len(*rows)
			*rows = append(*rows, fmt.Sprintf("| `%s` | `%s` |", f.Block, f.Argument))
			continue
		}
		(*rows)[i] = strings.TrimSuffix((*rows)[i], " |") + fmt.Sprintf(", `%s` |", f.Argument)
	}
	doc := readDoc(t, "docs/jobs.md")
	for _, rows := range [][]string{node, scheduler} {
		table := "| block | arguments |\n|---|---|\n" + strings.Join(rows, "\n") + "\n\n"
		if !strings.Contains(doc, table) {
			t.Errorf("docs/jobs.md, Placeholders: expected the table\n%s", table)
		}
	}
}
