// Links to files beside the page. From disk a path is enough; a server wants its token with every request.
export function linkTo(path) {
  const token = location.protocol.startsWith("http") ? location.search : "";
  return path.split("/").map(encodeURIComponent).join("/") + token;
}
