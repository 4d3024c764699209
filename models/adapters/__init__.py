"""Other libraries behind the verbs of `Model`; `import models` loads none of them."""
