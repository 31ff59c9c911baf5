package structs

// The modes of an artifact.
const (
	ArtifactAny  = "any"  // an archive is unpacked into the destination, any other file gets into it
	ArtifactFile = "file" // the destination is the path of one file
	ArtifactDir  = "dir"  // the destination is a directory
)

// The types of the task events of artifacts.
const (
	TaskEventDownloading    = "Downloading Artifacts"
	TaskEventDownloadFailed = "Failed Artifact Download"
)

// TaskArtifact is a task's `artifact {}`: a file or a tree that the node downloads before the first start of
// the task. Its texts may hold placeholders.
type TaskArtifact struct {
	GetterSource   string            // a URL, or a form such as git::https://... and github.com/...
	GetterOptions  map[string]string // become the query of the URL: checksum, archive, ref, depth, sshkey, ...
	GetterHeaders  map[string]string // of HTTP requests
	GetterMode     string            // any, file, dir
	GetterInsecure bool              // servers need no valid certificate
	RelativeDest   string            // below the task's directory, or ../alloc/...
	Chown          bool              // the user of the task owns the files
}
