// Package credentials finds the credentials of a registry for the image of a task: in the job, in a file in
// the form of docker's config.json, or from a helper program. It keeps none, and it connects to no registry.
package credentials
