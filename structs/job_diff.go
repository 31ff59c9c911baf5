package structs

// The types of a difference.
const (
	DiffNone    = "None"
	DiffAdded   = "Added"
	DiffDeleted = "Deleted"
	DiffEdited  = "Edited"
)

// JobDiff has the differences between two versions of a job, in the shape of the dialect.
type JobDiff struct {
	Type       string
	ID         string
	Fields     []*FieldDiff
	Objects    []*ObjectDiff
	TaskGroups []*TaskGroupDiff
}

// TaskGroupDiff has the differences of a task group. Updates counts its allocations by the effect of the new
// version on them, under the names that start with Update.
type TaskGroupDiff struct {
	Type    string
	Name    string
	Fields  []*FieldDiff
	Objects []*ObjectDiff
	Tasks   []*TaskDiff
	Updates map[string]uint64
}

// TaskDiff has the differences of a task. Annotations has their effect on the allocations.
type TaskDiff struct {
	Type        string
	Name        string
	Fields      []*FieldDiff
	Objects     []*ObjectDiff
	Annotations []string
}

// ObjectDiff has the differences of a block or a list.
type ObjectDiff struct {
	Type    string
	Name    string
	Fields  []*FieldDiff
	Objects []*ObjectDiff
}

// FieldDiff is the difference of one value. Old and New are its texts, "" if there is none. Those of a
// duration are nanoseconds, and Annotations then has its readable form.
type FieldDiff struct {
	Type        string
	Name        string
	Old, New    string
	Annotations []string
}
