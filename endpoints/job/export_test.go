package job

// CopyJob copies a job with its groups and tasks.
var CopyJob = copyJob

// DeleteBatch is the most evaluations that one log entry deletes.
const DeleteBatch = deleteBatch

// TakeAllDataPages leaves no page of data for requests.
func (a Allocs) TakeAllDataPages() {
	for range maxDataPages {
		a.dataPages.TryEnter()
	}
}
